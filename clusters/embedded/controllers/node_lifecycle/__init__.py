"""The node lifecycle controller: health of nodes by their leases, and the taints that follow from it.

Source of times, texts and rates: kubernetes v1.37.2 `pkg/controller/nodelifecycle` and its defaults.
"""

from __future__ import annotations

from clusters.embedded.controllers.node_lifecycle.controller import NodeLifecycleController

__all__ = ["NodeLifecycleController"]
