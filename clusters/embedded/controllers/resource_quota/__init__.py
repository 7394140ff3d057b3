"""The resource quota controller: what is in use in each namespace that has a quota."""

from __future__ import annotations

from clusters.embedded.controllers.resource_quota.controller import ResourceQuotaController

__all__ = ["ResourceQuotaController"]
