"""Kubeconfig files that hold a token."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import yaml


def write(
    path: Path,
    *,
    server: str,
    ca_pem: bytes,
    token: str,
    user: str,
    namespace: str = "",
    cluster_name: str = "cluster",
    context_name: str = "default",
) -> None:
    """Write a kubeconfig, readable by its owner alone."""
    context = {"cluster": cluster_name, "user": user}
    if namespace:
        context["namespace"] = namespace
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca_pem).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": context_name, "context": context}],
        "current-context": context_name,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # A file that was there before keeps its mode otherwise.
        os.fchmod(file.fileno(), 0o600)
        yaml.safe_dump(document, file, sort_keys=False)
