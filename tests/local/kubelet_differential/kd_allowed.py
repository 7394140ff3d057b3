"""Where embedded and real kubelets may differ, and why. All else is a fault of the embedded one."""

from __future__ import annotations

import re
from typing import Final

ALLOWED: Final[dict[str, str]] = {
    r"event of the real one only: .* FailedMount .* object .*kube-root-ca.crt. not registered": (
        "a real kubelet that starts mounts the volumes of Pods that it is about to end, now and then, and fails: its "
        "cache of ConfigMaps knows only those of Pods that shall run"
    ),
    r"event of the real one only: .* FailedMount .* failed to sync configmap cache: timed out": (
        "a real kubelet waits a second for its cache of ConfigMaps, which a busy machine does not fill in time"
    ),
    r"event of the (real|embedded) one only: .* FailedPrepareDynamicResources .*DRA driver \w+ is not registered": (
        "whether a driver is registered when a kubelet that starts looks at a Pod for the first time is chance"
    ),
    r"(failing: |steps of )Pod p /containerStatuses/c/resources.*claim:c[13]": (
        "a real kubelet goes through the claims of an answer in any order and stops at the first that failed: which of "
        "the others it has remembered by then is chance"
    ),
}
"""Reasons by patterns for lines of `kd_history.differences`."""


def unexplained(lines: list[str]) -> list[str]:
    """The differences that are not allowed."""
    return [line for line in lines if not any(re.match(pattern, line) for pattern in ALLOWED)]
