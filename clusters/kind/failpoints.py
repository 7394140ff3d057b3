"""Named points in the life of a kind cluster at which a test can make this process die, to prove that nothing stays.

With the environment variable `DRAKIT_CLUSTER_FAILPOINT=NAME` the process kills itself (SIGKILL) when it reaches NAME.
Drivers have points of their own, and a variable of their own: they inherit the environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VARIABLE: Final = "DRAKIT_CLUSTER_FAILPOINT"

POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "engine-started": "the container engine runs, and nothing of the cluster is there or written down",
        "record-written": "the cluster is written down, and nothing of it is there",
        "network-created": "its network is there",
        "config-written": "the folders of its nodes and its configuration for kind are there",
        "kind-create-running": "`kind create cluster` has been started",
        "containers-running": "`kind create cluster` has ended: the containers of its nodes run",
        "images-loaded": "the images that tests use are on its nodes",
        "kubeconfig-written": "the administrator's kubeconfig is in the cluster's folder",
        "drivers-running": "a driver runs on a node",
        "suites-running": "a requirement has just been judged",
        "deleting": "the cluster is about to be deleted",
        "deleted": "containers and network are gone, folder and record are not",
    }
)
"""Every failpoint with the state of things when it is reached."""


def reach(name: str) -> None:
    """Die here if the point is the chosen one. KeyError if the point is not in `POINTS`."""
    POINTS[name]
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
