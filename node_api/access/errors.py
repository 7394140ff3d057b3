"""What this package raises."""

from __future__ import annotations


class AccessError(Exception):
    """A kubeconfig, or something that it names, cannot be used; the text is one line and shows no secret."""
