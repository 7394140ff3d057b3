"""The downward API: fields of the Pod and resources of its containers as text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.resources import parse_amounts
from dra_api.quantity import Quantity

_SUBSCRIPT = re.compile(r"(?P<path>[^\[\]]+)\['(?P<key>.+)'\]\Z")


class DownwardError(Exception):
    """A field or resource that cannot be given; the text is the kubelet's."""


def _mapping_text(entries: Mapping[str, str]) -> str:
    """Labels or annotations, one `key="value"` a line in order."""
    quoted = ((key, _go_quote(value)) for key, value in sorted(entries.items()))
    return "\n".join(f"{key}={value}" for key, value in quoted)


def _go_quote(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


def field_value(pod: Object, path: str, host_ip: str, ips: tuple[str, ...]) -> str:
    """The text of a field path such as metadata.name or metadata.labels['app']. Raises DownwardError."""
    metadata = pod["metadata"]
    plain = {
        "metadata.name": metadata.get("name", ""),
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": ips[0] if ips else "",
        "status.podIPs": ",".join(ips),
    }
    if path in plain:
        return str(plain[path])
    if path in ("metadata.labels", "metadata.annotations"):
        return _mapping_text(metadata.get(path.rpartition(".")[2]) or {})
    match = _SUBSCRIPT.match(path)
    if match and match["path"] in ("metadata.labels", "metadata.annotations"):
        return str((metadata.get(match["path"].rpartition(".")[2]) or {}).get(match["key"], ""))
    raise DownwardError(f"unsupported fieldPath: {path}")


def resource_value(
    pod: Object, container: Object, selector: Mapping[str, str], allocatable: Mapping[str, str]
) -> str:
    """The text of a resourceFieldRef: rounded up in units of its divisor; limits default to the node's allocatable."""
    name = selector.get("containerName") or ""
    source: Object | None = objects.find_container(pod, name) if name else container
    if source is None:
        raise DownwardError(f'container "{name}" not found')
    kind, _, resource = str(selector["resource"]).partition(".")
    if kind not in ("limits", "requests"):
        raise DownwardError(f"unsupported container resource : {selector['resource']}")
    amounts = parse_amounts((source.get("resources") or {}).get(kind))
    amount = amounts.get(resource)
    if kind == "limits" and (amount is None or amount.is_zero()):
        amount = parse_amounts(allocatable).get(resource)
    amount = amount or Quantity(0)
    divisor = Quantity.parse(str(selector.get("divisor") or "0"))
    if divisor.is_zero():
        divisor = Quantity(1)
    if resource == "cpu":
        return str(-(-amount.milli_value() // divisor.milli_value()))
    return str(-(-amount.value() // divisor.value()))
