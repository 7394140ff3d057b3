"""A Kubernetes API server for the resource.k8s.io world, on aiohttp."""
