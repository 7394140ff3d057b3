"""Rules for Services: as far as their objects go; nothing forwards traffic to Pods.

Source: kubernetes v1.37.2 `pkg/apis/core/validation`, `ValidateService`. Not judged: dual stack, load balancers,
traffic policies, session affinity.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .findings import Findings
from .metadata import check_labels
from .names import dns_label_problems, dns_subdomain_problems, not_supported
from .pod_container import port_name_problems

Object = Mapping[str, Any]

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_AFFINITIES: Final = ("ClientIP", "None")
_PORT_MAX: Final = 65535
_RANGE: Final = f"must be between 1 and {_PORT_MAX}, inclusive"
HEADLESS: Final = "None"


def check_service(found: Findings, service: Object, old: Object | None) -> None:
    """A new or changed Service, beside its metadata."""
    spec = service.get("spec") or {}
    kind = spec.get("type") or ""
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != HEADLESS and kind != "ExternalName":
        found.required("spec.ports")
    if kind == "ExternalName":
        _check_external_name(found, spec.get("externalName") or "")
    _check_ports(found, ports)
    check_labels(found, spec.get("selector") or {}, "spec.selector")
    affinity = spec.get("sessionAffinity") or ""
    if not affinity:
        found.required("spec.sessionAffinity")
    elif affinity not in _AFFINITIES:
        found.add(not_supported("spec.sessionAffinity", affinity, _AFFINITIES))
    if kind not in _TYPES:
        found.add(not_supported("spec.type", kind, _TYPES))
    _check_address(found, spec, old)


def _check_external_name(found: Findings, name: str) -> None:
    if name:
        found.invalid_each("spec.externalName", name, dns_subdomain_problems(name.removesuffix(".")))
    else:
        found.required("spec.externalName")


def _check_ports(found: Findings, ports: Sequence[Object]) -> None:
    names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name, protocol, number = port.get("name") or "", port.get("protocol") or "", port.get("port") or 0
        if not name:
            if len(ports) > 1:
                found.required(f"{path}.name")
        elif problems := dns_label_problems(name):
            found.invalid_each(f"{path}.name", name, problems)
        elif name in names:
            found.duplicate(f"{path}.name", name)
        names.add(name)
        if not 1 <= number <= _PORT_MAX:
            found.invalid(f"{path}.port", number, _RANGE)
        if not protocol:
            found.required(f"{path}.protocol")
        elif protocol not in _PROTOCOLS:
            found.add(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
        target = port.get("targetPort", 0)
        if isinstance(target, str):
            found.invalid_each(f"{path}.targetPort", target, port_name_problems(target))
        elif not 1 <= target <= _PORT_MAX:
            found.invalid(f"{path}.targetPort", target, _RANGE)
        if (protocol, number) in seen:
            shown = {"port": number, "protocol": protocol, "targetPort": 0}
            found.duplicate(path, shown)
        seen.add((protocol, number))


def _check_address(found: Findings, spec: Object, old: Object | None) -> None:
    address = spec.get("clusterIP") or ""
    if address not in ("", HEADLESS):
        try:
            ipaddress.ip_address(address)
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            found.invalid("spec.clusterIPs[0]", address, text)
    before = (old or {}).get("spec") or {}
    internal = before.get("type") != "ExternalName" and spec.get("type") != "ExternalName"
    if internal and before.get("clusterIP") and address != before["clusterIP"]:
        found.invalid("spec.clusterIPs[0]", [address] if address else None, "may not change once set")
