"""The embedded tier: an API server and a kubelet of our own, pip only."""
