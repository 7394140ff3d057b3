"""Which containers may run again after they have ended.

Source: kubernetes v1.37.2 `ValidateContainerStateTransition`, `ContainerShouldRestart`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings

Object = Mapping[str, Any]


def check_transitions(
    found: Findings, status: Object, before: Object, spec: Object, field: str, group: str
) -> None:
    """A container that has ended and is not to be restarted stays so.

    `field` is the list of the status, `group` that of the spec, such as containerStatuses and containers.
    """
    everything = [each for name in ("containers", "initContainers") for each in spec.get(name) or []]
    if any(
        rule.get("action") == "RestartAllContainers"
        for each in everything
        for rule in each.get("restartPolicyRules") or []
    ):
        return
    containers = {each.get("name"): each for each in spec.get(group) or []}
    now = {each.get("name"): each for each in status.get(field) or []}
    for index, old in enumerate(before.get(field) or []):
        ended = (old.get("state") or {}).get("terminated")
        new = now.get(old.get("name"))
        if ended is None or new is None or (new.get("state") or {}).get("terminated") is not None:
            continue
        container = containers.get(old.get("name"))
        if container is None or not restarts(container, spec, ended.get("exitCode") or 0):
            path = f"status.{field}[{index}].state"
            found.forbidden(path, "may not be transitioned to non-terminated state")


def restarts(container: Object, spec: Object, code: int) -> bool:
    """Whether a container of a pod that ended with this code is started again."""
    own = container.get("restartPolicy")
    if own is not None and any(
        rule.get("action") == "Restart" and _fits(rule.get("exitCodes") or {}, code)
        for rule in container.get("restartPolicyRules") or []
    ):
        return True
    policy = own or spec.get("restartPolicy") or "Always"
    return bool(policy == "Always" or (policy == "OnFailure" and code != 0))


def _fits(codes: Object, code: int) -> bool:
    listed = code in (codes.get("values") or [])
    return listed if codes.get("operator") == "In" else codes.get("operator") == "NotIn" and not listed
