"""Pods of one node: from the API object to containers, and from containers to the status."""
