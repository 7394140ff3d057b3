"""The DaemonSet controller: one Pod on each node that wants it.

Source of orders, reasons and texts: kubernetes v1.37.2 `pkg/controller/daemon`.
"""

from clusters.embedded.controllers.daemonset.controller import DaemonSetController

__all__ = ["DaemonSetController"]
