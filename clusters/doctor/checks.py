"""Every check of a host, in the order in which they are shown."""

from __future__ import annotations

from typing import Any, Final

from clusters.doctor import engine, engine_host, kernel, kindtool, local, room, settings
from clusters.doctor.model import Check

HOST_CHECKS: Final[tuple[Check[Any], ...]] = (
    *settings.CHECKS,
    *room.CHECKS,
    *kernel.CHECKS,
    *local.CHECKS,
    *engine.CHECKS,
    *engine_host.CHECKS,
    *kindtool.CHECKS,
)
