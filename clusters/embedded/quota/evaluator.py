"""What an evaluator is, and those that only count objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from clusters.embedded.quota.amounts import Amounts, add, count
from dra_api.quantity import Quantity

Object = dict[str, Any]
Objects = list[Object]
CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"


class GroupResource(NamedTuple):
    """API group and plural name."""

    group: str
    resource: str

    @property
    def count_name(self) -> str:
        """The name under which a quota limits the number of objects."""
        return f"count/{self.resource}.{self.group}" if self.group else f"count/{self.resource}"


class Stored(Protocol):
    """The objects that evaluators look at, in the storage version."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object or None."""

    def list(self, group: str, resource: str, namespace: str | None = None) -> Objects:
        """All objects of a resource, of one namespace if given."""


class ScopeSelector(NamedTuple):
    """One scope of a quota; `values` for the operators In and NotIn."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


def scope_selectors(quota: Mapping[str, Any]) -> list[ScopeSelector]:
    """What restricts a quota to some objects."""
    spec = quota.get("spec") or {}
    selectors = [ScopeSelector(scope) for scope in spec.get("scopes") or []]
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        values = tuple(each.get("values") or ())
        selectors.append(ScopeSelector(each.get("scopeName", ""), each.get("operator", ""), values))
    return selectors


class Evaluator:
    """How objects of one resource count. As such: their number, under the generic name and perhaps an older one."""

    full_objects = False
    """Whether the usage depends on more than the metadata."""

    def __init__(self, resource: GroupResource, alias: str = "") -> None:
        self.resource = resource
        self.names = (resource.count_name, *((alias,) if alias else ()))

    def handles(self, operation: str, subresource: str, new: Object, old: Object) -> bool:
        """Whether such a write may change the usage."""
        return operation == CREATE and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        """Which of the names this evaluator measures."""
        return [name for name in names if name in self.names]

    def missing(self, names: Collection[str], obj: Object) -> str:
        """What an object must say because a quota has these names; empty when nothing is missing."""
        return ""

    def in_scope(self, selector: ScopeSelector, obj: Object) -> bool:
        """Whether an object belongs to a scope."""
        return False

    def usage(self, obj: Object) -> Amounts:
        """What an object counts as."""
        return dict.fromkeys(self.names, count(1))

    def freed(self, old: Object, new: Object) -> bool:
        """Whether a change of an object may have lowered the usage."""
        return False

    def matches(self, quota: Mapping[str, Any], obj: Object) -> bool:
        """Whether a quota is about an object."""
        hard = (quota.get("status") or {}).get("hard") or {}
        return bool(self.matching(hard)) and all(
            self.in_scope(selector, obj) for selector in scope_selectors(quota)
        )


class ServiceEvaluator(Evaluator):
    """Services, with the node ports and load balancers that they ask for."""

    full_objects = True

    def __init__(self) -> None:
        super().__init__(GroupResource("", "services"), "services")
        self.names = (*self.names, "services.nodeports", "services.loadbalancers")

    def handles(self, operation: str, subresource: str, new: Object, old: Object) -> bool:
        """The type may change."""
        return operation in (CREATE, UPDATE) and not subresource

    def usage(self, obj: Object) -> Amounts:
        """See Evaluator."""
        spec = obj.get("spec") or {}
        ports, kind = spec.get("ports") or [], spec.get("type")
        node_ports = 0
        if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            node_ports = sum(1 for port in ports if port.get("nodePort"))
        elif kind in ("NodePort", "LoadBalancer"):
            node_ports = len(ports)
        return {
            self.resource.count_name: count(1),
            "services": count(1),
            "services.nodeports": count(node_ports),
            "services.loadbalancers": count(1 if kind == "LoadBalancer" else 0),
        }

    def freed(self, old: Object, new: Object) -> bool:
        """A service of another type."""
        return _counted_type(old) != _counted_type(new)


def _counted_type(service: Object) -> str:
    kind = (service.get("spec") or {}).get("type", "")
    return kind if kind in ("NodePort", "LoadBalancer") else ""


def measure(
    evaluator: Evaluator, names: Sequence[str], quota: Mapping[str, Any], objects: Objects
) -> Amounts:
    """What objects count as together: the names that a quota limits, and whatever else they count as."""
    used: Amounts = dict.fromkeys(names, Quantity(0))
    selectors = scope_selectors(quota)
    for obj in objects:
        if all(evaluator.in_scope(selector, obj) for selector in selectors):
            used = add(used, evaluator.usage(obj))
    return used
