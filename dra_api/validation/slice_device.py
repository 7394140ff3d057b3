"""Rules for one device of a ResourceSlice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from .. import semver
from ..equality import semantic_equal
from ..fields import LIST_VALUES
from ..schema import load
from . import limits
from .capacity_policy import check_request_policy
from .devices import check_binding, check_taint
from .findings import Findings, check_list, check_set
from .formats import check_label, check_qualified_name, check_required_label, shortened
from .names import BYTES, byte_length, dns_label_problems, dns_subdomain_problems, too_many
from .node_allocatable import check_node_allocatable
from .node_selector import check_node_selector

Object = Mapping[str, Any]

VALUE_FIELDS: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_KEY_LENGTH: Final = limits.DOMAIN_LENGTH + 1 + limits.IDENTIFIER_LENGTH
_ONE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)
_NO_NODE_FIELD: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def check_device(
    found: Findings, device: Object, old: Object | None, path: str, per_device: bool, gates: Collection[str]
) -> None:
    """Check a device; capacities and taints that equal those of `old` are not judged again."""
    check_label(found, f"{path}.name", device.get("name") or "")
    attributes, capacities = device.get("attributes") or {}, device.get("capacity") or {}
    entries = len(attributes) + len(capacities)
    if entries > limits.ATTRIBUTES_AND_CAPACITIES:
        text = f"the total number of attributes and capacities must not exceed {limits.ATTRIBUTES_AND_CAPACITIES}"
        found.invalid(path, entries, text)
    values = sum(map(_value_count, attributes.values()))
    if values > limits.ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {limits.ATTRIBUTE_VALUES}"
        found.invalid(path, values, text)
    for name, attribute in attributes.items():
        check_qualified_name(found, f"{path}.attributes", name)
        _check_attribute(found, attribute or {}, f"{path}.attributes", name)
    if _changed(device, old, "capacity"):
        shared = bool(device.get("allowMultipleAllocations"))
        for name, capacity in capacities.items():
            check_qualified_name(found, f"{path}.capacity", name)
            policy_path = f"{path}.capacity[{shortened(name, _KEY_LENGTH)}].requestPolicy"
            if capacity.get("requestPolicy") is None:
                continue
            if shared:
                check_request_policy(found, capacity, policy_path, gates)
            else:
                found.forbidden(policy_path, "allowMultipleAllocations must be true")
    if _changed(device, old, "taints"):
        check_list(
            found,
            device.get("taints") or [],
            limits.TAINTS,
            f"{path}.taints",
            lambda taint, where: check_taint(found, taint, where),
            declared=False,
        )
    _check_consumption(found, device.get("consumesCounters") or [], f"{path}.consumesCounters")
    _check_nodes(found, device, path, per_device)
    check_binding(found, device, path)
    resources = device.get("nodeAllocatableResources") or {}
    check_node_allocatable(found, resources, capacities, f"{path}.nodeAllocatableResources")


def _changed(device: Object, old: Object | None, field: str) -> bool:
    if old is None:
        return True
    message = load().message("resource/v1.Device")
    return not semantic_equal({field: device.get(field)}, {field: old.get(field)}, message)


def _value_count(attribute: Object) -> int:
    return sum(len(attribute.get(field) or []) for field in LIST_VALUES) or 1


def _check_attribute(found: Findings, attribute: Object, attributes_path: str, name: str) -> None:
    path = f"{attributes_path}[{shortened(name, _KEY_LENGTH)}]"
    chosen = [field for field in VALUE_FIELDS if attribute.get(field) is not None]
    # Declarative rules take an empty list for none.
    declared = [field for field in chosen if field not in LIST_VALUES or attribute[field]]
    if "string" in chosen and byte_length(attribute["string"]) > limits.ATTRIBUTE_LENGTH:
        found.longer(f"{path}.string", limits.ATTRIBUTE_LENGTH)
    if "version" in chosen:
        _check_version(found, attribute["version"], f"{path}.version")
    for field in ("bools", "ints", "strings", "versions"):
        if field in chosen and not attribute[field]:
            found.invalid(f"{path}.{field}", [], "must not be empty if specified")
    for index, item in enumerate(attribute.get("strings") or []):
        if byte_length(item) > limits.ATTRIBUTE_LENGTH:
            found.longer(f"{path}.strings[{index}]", limits.ATTRIBUTE_LENGTH)
    for index, item in enumerate(attribute.get("versions") or []):
        _check_version(found, item, f"{path}.versions[{index}]")
    members = ", ".join(f"`{field}`" for field in VALUE_FIELDS)
    # Where a declarative rule finds nothing at the same path, the handwritten one speaks: the former do not shorten the
    # key in the path.
    declared_path = f"{attributes_path}[{name}]"
    if len(chosen) != 1 and (declared_path != path or len(declared) == 1):
        shown = go_attribute(attribute) if chosen else ""
        found.invalid(path, shown, "exactly one value must be specified")
    if not declared:
        found.invalid(declared_path, "", f"must specify one of: {members}", declared=True)
    elif len(declared) > 1:
        fields = f"{{{', '.join(declared)}}}"
        found.invalid(declared_path, fields, f"must specify exactly one of: {members}", declared=True)


def go_attribute(attribute: Object) -> dict[str, Any]:
    """An attribute as the server prints it: its internal type has no JSON names."""
    return {_go_name(field): attribute.get(field) for field in VALUE_FIELDS}


def _go_name(field: str) -> str:
    many = field.endswith("s")
    return f"{field.removesuffix('s').capitalize()}{'Values' if many else 'Value'}"


def _check_version(found: Findings, value: str, path: str) -> None:
    if not semver.is_valid(value):
        found.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0")
    if byte_length(value) > limits.ATTRIBUTE_LENGTH:
        found.longer(path, limits.ATTRIBUTE_LENGTH)


def _check_consumption(found: Findings, consumptions: list[Object], path: str) -> None:
    def check(consumption: Object, where: str) -> None:
        check_required_label(found, f"{where}.counterSet", consumption.get("counterSet") or "")
        check_counters(found, consumption.get("counters") or {}, f"{where}.counters")
        groups = consumption.get("compatibilityGroups") or []
        check_set(
            found,
            groups,
            limits.COMPATIBILITY_GROUPS,
            f"{where}.compatibilityGroups",
            lambda group, at: found.invalid_each(at, group, dns_label_problems(group, BYTES), declared=True),
            str,
            str,
            declared=True,
        )

    def name(consumption: Object) -> str:
        return consumption.get("counterSet") or ""

    check_set(found, consumptions, limits.COUNTER_CONSUMPTIONS, path, check, name, dict, declared=True)


def check_counters(found: Findings, counters: Mapping[str, Any], path: str) -> None:
    """Counters by name, of a set or of a consumption: 1 to 32, named by DNS labels, of any value."""
    if not counters:
        found.required(path, declared=True)
    elif len(counters) > limits.COUNTERS:
        found.add(too_many(path, len(counters), limits.COUNTERS))
    for name in counters:
        found.invalid_each(path, name, dns_label_problems(name, BYTES), declared=True)


def _check_nodes(found: Findings, device: Object, path: str, per_device: bool) -> None:
    """Where the device is, which only slices with per-device node selection may say."""
    name, selector, everywhere = device.get("nodeName"), device.get("nodeSelector"), device.get("allNodes")
    if not per_device:
        if (name, selector, everywhere) != (None, None, None):
            found.invalid(path, None, _NO_NODE_FIELD)
        return
    chosen = []
    if name:
        chosen.append("`nodeName`")
        found.invalid_each(f"{path}.nodeName", name, dns_subdomain_problems(name))
    elif name is not None:
        found.invalid(f"{path}.nodeName", name, "must not be empty")
    if selector is not None:
        chosen.append("`nodeSelector`")
        check_node_selector(found, selector, f"{path}.nodeSelector")
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        found.invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    if not chosen:
        found.required(path, _ONE_NODE_FIELD)
    elif len(chosen) > 1:
        found.invalid(path, f"{{{', '.join(chosen)}}}", _ONE_NODE_FIELD)
