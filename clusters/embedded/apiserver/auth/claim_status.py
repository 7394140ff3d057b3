"""Granular rights for writing the status of resource claims (api-validation 3.3.8).

The caller's ordinary right on resourceclaims/status is checked before, as for each request.
"""

from __future__ import annotations

import re
from typing import Any, Final

from clusters.embedded.apiserver.auth.attributes import Attributes, Authorizer
from clusters.embedded.apiserver.auth.authorizer import refusal
from clusters.embedded.apiserver.auth.users import NODE_NAME, User
from dra_api.errors import FieldError

GATE: Final = "DRAResourceClaimGranularStatusAuthorization"
"""The feature gate that switches these checks on."""

_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NODE_NAME: Final = 253


def check(
    user: User,
    verb: str,
    *,
    namespace: str,
    version: str,
    new: dict[str, Any],
    old: dict[str, Any],
    authorizer: Authorizer,
) -> list[FieldError]:
    """The changes of a status that the user may not make, as causes of a 422.

    `verb` is update or patch as the request used it, `new` and `old` are status dicts (stale device entries
    of a lost allocation already dropped). Allocation and reservedFor need resourceclaims/binding
    cluster-wide; device entries need resourceclaims/driver in the claim's namespace, named after each driver.
    """
    context = Attributes(user, verb, "resource.k8s.io", version, "resourceclaims", namespace=namespace)
    errors = _binding(context, new, old, authorizer)
    # Without an allocation there is no driver left whose entries could be written.
    if new.get("allocation") is not None:
        errors += _devices(context, new, old, authorizer)
    return errors


def _binding(
    context: Attributes, new: dict[str, Any], old: dict[str, Any], authorizer: Authorizer
) -> list[FieldError]:
    same = new.get("allocation") == old.get("allocation")
    if same and (new.get("reservedFor") or []) == (old.get("reservedFor") or []):
        return []
    attributes = _with(context, "binding", context.verb, "", "")
    problem = _problem(attributes, authorizer)
    if problem is None:
        return []
    detail = (
        "changing status.allocation or status.reservedFor requires "
        f'resource="resourceclaims/binding", verb="{context.verb}" permission: {problem}'
    )
    return [FieldError("Forbidden", "status.allocation", detail)]


def _devices(
    context: Attributes, new: dict[str, Any], old: dict[str, Any], authorizer: Authorizer
) -> list[FieldError]:
    verbs = [f"arbitrary-node:{context.verb}"]
    if _on_allocated_node(context.user, new.get("allocation")):
        verbs.insert(0, f"associated-node:{context.verb}")
    errors = []
    for driver in sorted(modified_drivers(new, old)):
        problems = []
        for verb in verbs:
            problem = _problem(_with(context, "driver", verb, context.namespace, driver), authorizer)
            if problem is None:
                break
            problems.append(problem)
        else:
            detail = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {problems[0]}'
            )
            errors.append(FieldError("Forbidden", "status.devices", detail))
    return errors


def modified_drivers(new: dict[str, Any], old: dict[str, Any]) -> set[str]:
    """Drivers with an added, changed or removed entry in status.devices."""

    def by_key(status: dict[str, Any]) -> dict[tuple[str, ...], dict[str, Any]]:
        return {
            tuple(item.get(key) or "" for key in ("driver", "pool", "device", "shareID")): item
            for item in status.get("devices") or []
        }

    before, after = by_key(old), by_key(new)
    return {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _with(context: Attributes, subresource: str, verb: str, namespace: str, name: str) -> Attributes:
    return Attributes(
        context.user, verb, context.group, context.version, context.resource, subresource, namespace, name
    )


def _problem(attributes: Attributes, authorizer: Authorizer) -> str | None:
    decision = authorizer.authorize(attributes)
    return None if decision.allowed else refusal(attributes, decision.reason).message


def _on_allocated_node(user: User, allocation: dict[str, Any] | None) -> bool:
    """Whether a service account's token is bound to the one node of the allocation."""
    node = _allocated_node(allocation or {})
    names = user.extra.get(NODE_NAME, ())
    if not node or user.service_account is None or len(names) != 1:
        return False
    valid = len(names[0]) <= _MAX_NODE_NAME and _NODE_NAME.fullmatch(names[0]) is not None
    return valid and names[0] == node


def _allocated_node(allocation: dict[str, Any]) -> str:
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or fields[0].get("key") != "metadata.name" or fields[0].get("operator") != "In":
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""
