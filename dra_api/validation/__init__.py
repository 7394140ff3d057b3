"""Validation of the resource.k8s.io kinds."""
