"""The container runtime interface, v1: a kubelet's way to the simulated runtime of its node."""
