"""The local tier: real Kubernetes components as plain processes on this machine."""
