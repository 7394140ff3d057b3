"""The controller that deletes pods whose devices have NoExecute taints (components section 5)."""

from __future__ import annotations

from clusters.embedded.controllers.device_taint_eviction.controller import DeviceTaintEvictionController

__all__ = ["DeviceTaintEvictionController"]
