"""All scenarios between kubelet, plugin and API server: each module adds its own to the lists."""

from __future__ import annotations

import kd_drivers  # noqa: F401
import kd_prepare  # noqa: F401
import kd_restarts  # noqa: F401
import kd_unprepare  # noqa: F401
from kd_kit import PARALLEL, RESTARTS, Scenario

__all__ = ["PARALLEL", "RESTARTS", "Scenario"]
