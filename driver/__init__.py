"""Kubelet-plugin SDK and the reference DRA driver."""
