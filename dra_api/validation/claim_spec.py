"""Rules for the spec of a ResourceClaim, which a ResourceClaimTemplate contains as well."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from .. import features
from ..cel import COST_LIMIT
from . import limits
from .cel import validate_derived_expression
from .devices import (
    RequestNames,
    check_configuration,
    check_request_references,
    check_selectors,
    check_tolerations,
)
from .findings import Findings, check_list, check_set, check_unique
from .formats import check_class_name, check_fully_qualified_name, check_label
from .names import not_supported, too_many

Object = Mapping[str, Any]

_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"
# The server's text for neither, although it speaks of several.
_NO_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
)
_TOO_COMPLEX: Final = (
    "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
)
_UNUSED: Final = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


def check_claim_spec(found: Findings, spec: Object, path: str, gates: Collection[str]) -> None:
    """Check `spec.devices` of a new claim or template."""
    _Devices(found, spec.get("devices") or {}, gates).check(f"{path}.devices")


class _Devices:
    """The checks of one `devices`, which know its constraints and request names."""

    def __init__(self, found: Findings, devices: Object, gates: Collection[str]) -> None:
        self._found = found
        self._devices = devices
        self._gates = gates
        self._names = RequestNames(devices)
        self._constrained = _constrained_attributes(devices.get("constraints") or [])
        self._derived_cost = 0

    def check(self, path: str) -> None:
        found, devices = self._found, self._devices
        requests = devices.get("requests") or []
        where = f"{path}.requests"
        check_set(found, requests, limits.REQUESTS, where, self._check_request, _name, dict, declared=True)
        constraints = devices.get("constraints") or []
        check_list(
            found,
            constraints,
            limits.CONSTRAINTS,
            f"{path}.constraints",
            self._check_constraint,
            declared=True,
        )
        configs = devices.get("config") or []
        check_list(found, configs, limits.CONFIGS, f"{path}.config", self._check_config, declared=True)
        if self._derived_cost > COST_LIMIT:
            found.forbidden(path, _TOO_COMPLEX)

    def _check_request(self, request: Object, path: str) -> None:
        found = self._found
        name = request.get("name") or ""
        check_label(found, f"{path}.name", name)
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
        if exactly is None and not alternatives:
            found.required(path, _ONE_OF)
        elif exactly is not None and alternatives:
            found.invalid(path, None, f"{_ONE_OF}, but multiple fields are set")
            with found.only_declared():
                self._check_exactly(exactly, path, name)
                self._check_alternatives(alternatives, path, name)
        elif exactly is not None:
            self._check_exactly(exactly, path, name)
        else:
            self._check_alternatives(alternatives, path, name)

    def _check_exactly(self, exactly: Object, path: str, name: str) -> None:
        class_name = exactly.get("deviceClassName") or ""
        check_class_name(self._found, f"{path}.exactly.deviceClassName", class_name, declared=False)
        self._check_demand(exactly, f"{path}.exactly", name)

    def _check_alternatives(self, alternatives: Sequence[Object], path: str, name: str) -> None:
        found, where = self._found, f"{path}.firstAvailable"

        def check(sub: Object, sub_path: str) -> None:
            sub_name = sub.get("name") or ""
            check_label(found, f"{sub_path}.name", sub_name)
            class_name = sub.get("deviceClassName") or ""
            check_class_name(found, f"{sub_path}.deviceClassName", class_name, declared=True)
            self._check_demand(sub, sub_path, f"{name}/{sub_name}")

        check_set(found, alternatives, limits.SUB_REQUESTS, where, check, _name, dict, declared=True)

    def _check_demand(self, demand: Object, path: str, reference: str) -> None:
        """What `exactly` and a sub-request have in common."""
        found = self._found
        check_selectors(found, demand.get("selectors") or [], f"{path}.selectors", self._gates)
        self._check_derived(demand.get("derivedAttributes") or [], f"{path}.derivedAttributes", reference)
        mode, count = demand.get("allocationMode") or "", demand.get("count") or 0
        if mode == "All":
            if count:
                found.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
        elif mode == "ExactCount":
            if count <= 0:
                found.invalid(f"{path}.count", count, "must be greater than zero")
        else:
            # Only v1beta1 can lack a mode; its declarative rule does not mind.
            error = not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
            found.add(error, declared=mode != "")
        check_tolerations(found, demand.get("tolerations") or [], f"{path}.tolerations")

    def _check_derived(self, attributes: Sequence[Object], path: str, reference: str) -> None:
        found = self._found
        # Declarative rules do not look into a list that is too long; handwritten ones do.
        fits = len(attributes) <= limits.DERIVED_ATTRIBUTES
        if not fits:
            found.add(too_many(path, len(attributes), limits.DERIVED_ATTRIBUTES), declared=True)
        for index, attribute in enumerate(attributes):
            where = f"{path}[{index}]"
            name, expression = attribute.get("name") or "", attribute.get("expression") or ""
            if name and not self._is_constrained(name, reference):
                found.invalid(f"{where}.name", name, _UNUSED)
            if fits and name:
                check_fully_qualified_name(found, f"{where}.name", name)
            for field, value in (("name", name), ("expression", expression)):
                if fits and not value:
                    found.required(f"{where}.{field}", declared=True)
            if expression:
                errors, cost = validate_derived_expression(expression, f"{where}.expression", self._gates)
                found.extend(errors)
                # Upstream adds with 64 bits.
                self._derived_cost = (self._derived_cost + cost) % 2**64
        check_unique(found, attributes, path, _name, _name, declared=False)

    def _is_constrained(self, attribute: str, reference: str) -> bool:
        """Whether a constraint on the attribute covers the request, its parent, or everything."""
        targets = ("", reference, reference.partition("/")[0])
        return any(attribute in self._constrained.get(target, ()) for target in targets)

    def _check_constraint(self, constraint: Object, path: str) -> None:
        found = self._found
        check_request_references(found, constraint.get("requests") or [], self._names, f"{path}.requests")
        # With both set the claim is accepted and only the first counts.
        attributes = [
            each for each in ("matchAttribute", "distinctAttribute") if constraint.get(each) is not None
        ]
        for field in attributes:
            check_fully_qualified_name(found, f"{path}.{field}", constraint[field])
        if attributes:
            return
        if features.CONSUMABLE_CAPACITY in self._gates:
            found.required(path, _NO_ATTRIBUTE)
        else:
            found.required(f"{path}.matchAttribute")

    def _check_config(self, config: Object, path: str) -> None:
        check_request_references(self._found, config.get("requests") or [], self._names, f"{path}.requests")
        check_configuration(self._found, config, path)


def _constrained_attributes(constraints: Sequence[Object]) -> dict[str, set[str]]:
    """Request reference ("" for all requests) -> attributes on which constraints look."""
    found: dict[str, set[str]] = {}
    for constraint in constraints:
        attribute = constraint.get("matchAttribute")
        if attribute is None:
            attribute = constraint.get("distinctAttribute")
        if attribute is not None:
            for request in constraint.get("requests") or [""]:
                found.setdefault(request, set()).add(attribute)
    return found


def _name(item: Object) -> str:
    return item.get("name") or ""
