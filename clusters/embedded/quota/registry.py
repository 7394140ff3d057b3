"""All evaluators; kinds without one of their own are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clusters.embedded.quota.claims import ClaimEvaluator
from clusters.embedded.quota.evaluator import Evaluator, GroupResource, ServiceEvaluator, Stored
from clusters.embedded.quota.pods import PodEvaluator

EXTENDED_RESOURCE: Final = "DRAExtendedResource"
"""The gate of devices that count as extended resources, too."""
IGNORED: Final = frozenset(
    GroupResource(group, resource)
    for group, resource in (
        ("", "bindings"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("", "events"),
        ("events.k8s.io", "events"),
    )
)
"""What is not stored, or was never limited."""


class Registry:
    """The evaluators by resource."""

    def __init__(self, stored: Stored, now: Callable[[], float], *, extended: bool) -> None:
        """`now`: seconds since 1970; `extended`: the gate DRAExtendedResource."""
        pods = PodEvaluator(now)
        own = (
            pods,
            ServiceEvaluator(),
            ClaimEvaluator(stored, pods, extended=extended),
            *(
                Evaluator(GroupResource("", name), name)
                for name in ("configmaps", "resourcequotas", "secrets")
            ),
        )
        self._evaluators = {evaluator.resource: evaluator for evaluator in own}

    def get(self, resource: GroupResource) -> Evaluator:
        """The evaluator of a resource."""
        if resource not in self._evaluators:
            self._evaluators[resource] = Evaluator(resource)
        return self._evaluators[resource]
