"""Score: nodes where requests get an earlier alternative of their list are better (components 2.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allocator import allocation_of
from clusters.embedded.scheduler.framework.events import Object

from .claim_tracker import results_of

_ALTERNATIVES: Final = 8
"""The longest list of alternatives that the API allows."""


def has_alternatives(claims: Sequence[Object]) -> bool:
    """Whether there is a request with a list of alternatives."""
    return any(
        request.get("firstAvailable")
        for claim in claims
        for request in (claim["spec"].get("devices") or {}).get("requests") or ()
    )


def allocation_score(claims: Sequence[Object], results: Sequence[dict[str, Any]]) -> int:
    """The score before normalization; `results` belong to the claims without allocation, in order."""
    fresh = iter(results)
    score = 0
    for claim in claims:
        allocation = allocation_of(claim) or next(fresh)
        chosen = {result["request"] for result in results_of(allocation)}
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            score += _request_score(request, chosen)
    return score


def _request_score(request: Mapping[str, Any], chosen: set[str]) -> int:
    if request.get("exactly") is not None:
        return 0
    return sum(
        _ALTERNATIVES - index
        for index, choice in enumerate(request.get("firstAvailable") or ())
        if f"{request['name']}/{choice['name']}" in chosen
    )
