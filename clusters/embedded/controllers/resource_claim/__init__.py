"""The resource claim controller: claims from templates, reservations, deallocation (components section 3)."""

from __future__ import annotations

from clusters.embedded.controllers.resource_claim.controller import ResourceClaimController

__all__ = ["ResourceClaimController"]
