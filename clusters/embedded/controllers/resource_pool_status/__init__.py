"""The controller that answers ResourcePoolStatusRequests (components section 8)."""

from __future__ import annotations

from clusters.embedded.controllers.resource_pool_status.controller import ResourcePoolStatusController

__all__ = ["ResourcePoolStatusController"]
