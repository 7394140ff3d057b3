"""Slices that use a node feature only for nodes that declare it (api-validation 10.2)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from clusters.embedded.apiserver.admission.node_selector import matches
from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, UPDATE, Request
from clusters.embedded.apiserver.auth.text import quoted

_FEATURE: Final = "DRANodeAllocatableResources"
"""The feature gate and the name that nodes declare."""


class NodeDeclaredFeatureValidator(Plugin):
    """Checks the nodes of each device with nodeAllocatableResources; never again when nodes change later."""

    name: ClassVar[str] = "NodeDeclaredFeatureValidator"

    def validate(self, request: Request) -> None:
        """403 for a missing node or a node without the feature."""
        if not request.is_for("resourceslices", "resource.k8s.io") or _FEATURE not in self.context.gates:
            return
        if request.operation not in (CREATE, UPDATE):
            return
        spec = request.new.get("spec") or {}
        for device in spec.get("devices") or []:
            if device.get("nodeAllocatableResources"):
                place = device if spec.get("perDeviceNodeSelection") else spec
                self._check(request, device.get("name", ""), place)

    def _check(self, request: Request, device: str, place: dict[str, Any]) -> None:
        reader = self.context.reader
        if place.get("nodeName"):
            node = reader.get("", "nodes", "", place["nodeName"])
            if node is None:
                name = quoted(place["nodeName"])
                raise request.refuse(f"node {name} not found for device {quoted(device)}")
            nodes = [node]
        elif place.get("nodeSelector") is not None:
            nodes = [node for node in reader.list("", "nodes") if matches(place["nodeSelector"], node)]
        elif place.get("allNodes"):
            nodes = reader.list("", "nodes")
        else:
            raise request.refuse(
                f"device {quoted(device)} in ResourceSlice has NodeAllocatableResources "
                "but does not map to any nodes"
            )
        for node in nodes:
            if _FEATURE not in ((node.get("status") or {}).get("declaredFeatures") or []):
                name = quoted((node.get("metadata") or {}).get("name", ""))
                raise request.refuse(f"node {name} does not support {_FEATURE} feature")
