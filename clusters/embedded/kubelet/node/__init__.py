"""The Node object of a kubelet, and its lease."""
