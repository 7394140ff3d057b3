"""The StatefulSet controller: Pods with ordinals, one after the other.

Source of orders, reasons and texts: kubernetes v1.37.2 `pkg/controller/statefulset`.
"""

from clusters.embedded.controllers.statefulset.controller import StatefulSetController

__all__ = ["StatefulSetController"]
