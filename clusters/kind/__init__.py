"""The kind tier: real Kubernetes in containers, by `kind`, on any Docker engine."""
