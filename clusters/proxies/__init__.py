"""The HTTP proxy before an API server and the gRPC proxy before a plugin: record and inject."""
