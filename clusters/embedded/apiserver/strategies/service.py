"""Services get their addresses here; nothing forwards traffic to Pods (api-machinery section 7)."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from clusters.chance import CHANCE
from clusters.embedded.apiserver.storage import Object, Reader
from clusters.embedded.apiserver.strategies.base import Write, keep_status
from clusters.embedded.apiserver.strategies.core import CoreStrategy

_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
API_SERVER_ADDRESS: Final = str(_NETWORK[1])
_NODE_PORTS: Final = range(30000, 32768)


class ServiceStrategy(CoreStrategy):
    """Services: status apart, addresses and node ports set by the server."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status; an address of its own."""
        new["status"] = {"loadBalancer": {}}
        self._allocate(new, write.reader)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays; so do addresses that the client leaves out."""
        keep_status(new, old)
        spec, before = new.setdefault("spec", {}), old.get("spec") or {}
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
            return
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
        ports = {(port.get("protocol"), port.get("port")): port for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            known = ports.get((port.get("protocol"), port.get("port"))) or {}
            if known.get("nodePort") and spec.get("type") in ("NodePort", "LoadBalancer"):
                port["nodePort"] = port.get("nodePort") or known["nodePort"]
        self._allocate(new, write.reader)

    def _allocate(self, service: Object, reader: Reader) -> None:
        spec: dict[str, Any] = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName":
            return
        others = [other.get("spec") or {} for other in reader.list("", "services")]
        if not spec.get("clusterIP"):
            given = (spec.get("clusterIPs") or [""])[0]
            spec["clusterIP"] = given or _free_address({other.get("clusterIP") for other in others})
        spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or "SingleStack"
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            used = {port.get("nodePort") for other in others for port in other.get("ports") or []}
            for port in spec.get("ports") or []:
                if not port.get("nodePort"):
                    port["nodePort"] = CHANCE.choice([each for each in _NODE_PORTS if each not in used])
                used.add(port["nodePort"])


def _free_address(used: set[Any]) -> str:
    while True:
        # The first 256 addresses are for those who choose one.
        address = str(_NETWORK[CHANCE.randrange(257, _NETWORK.num_addresses - 1)])
        if address not in used:
            return address
