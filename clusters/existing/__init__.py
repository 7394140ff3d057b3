"""The existing tier: a cluster of the user's, by a kubeconfig; the kit touches only what it has made there."""
