"""ResourceQuotas; their rules live in dra_api."""

from __future__ import annotations

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import Strategy, Write, keep_status
from dra_api.errors import FieldError
from dra_api.validation import resource_quota


class QuotaStrategy(Strategy):
    """The status is the controller's and admission's."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status."""
        new["status"] = {}
        new.setdefault("spec", {})

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        new.setdefault("spec", {})
        keep_status(new, old)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.resource_quota."""
        write.warnings.extend(resource_quota.warnings(new))
        return resource_quota.validate_quota(new)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.resource_quota."""
        return resource_quota.validate_quota(new, old)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.resource_quota."""
        return resource_quota.validate_quota_status(new)
