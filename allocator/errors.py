"""Why an allocation ends without a result, and how far that reaches."""

from __future__ import annotations

from typing import Final


class AllocationError(Exception):
    """A problem of the claims, classes or slices themselves: the pod cannot be scheduled on any node now.

    `scope` says what the error is about: `pod` (try no other node) or `node` (this node only).
    The text is the one that Kubernetes 1.37 shows.
    """

    scope: str = "pod"


class NodeError(AllocationError):
    """This node cannot satisfy the claims, and `invalid_pools` of its pools are invalid.

    Other nodes may still be tried. The scheduler counts the nodes with this text in front of it
    (`2 invalid resource pools were encountered`).
    """

    scope = "node"

    def __init__(self, invalid_pools: int) -> None:
        super().__init__("invalid resource pools were encountered")
        self.invalid_pools: Final = invalid_pools


class AllocationCancelledError(AllocationError):
    """The search was told to stop (filter timeout) before it had an answer."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted: context deadline exceeded")
