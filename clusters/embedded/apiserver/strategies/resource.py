"""The kinds of resource.k8s.io; their rules live in dra_api."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from clusters.embedded.apiserver.auth import claim_status
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies import admin_access
from clusters.embedded.apiserver.strategies.base import Strategy, Write, keep_status
from clusters.embedded.apiserver.times import timestamp
from dra_api import defaults, fields, validation
from dra_api.decode import as_stored
from dra_api.errors import FieldError

GRANULAR_STATUS: Final = "DRAResourceClaimGranularStatusAuthorization"


class DraStrategy(Strategy):
    """What all kinds of the group share."""

    validates_metadata = True

    def default(self, obj: Object, now: float) -> None:
        """See dra_api.defaults."""
        defaults.apply_defaults(obj, datetime.fromtimestamp(now, UTC))

    def prepare_create(self, new: Object, write: Write) -> None:
        """Fields of disabled features are dropped."""
        super().prepare_create(new, write)
        fields.drop_disabled(new, None, write.gates)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Fields of disabled features are dropped unless the object used them before."""
        # A real server counts the generation before it drops fields.
        super().prepare_update(new, old, write)
        fields.drop_disabled(new, old, write.gates)

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """The same for the status."""
        super().prepare_status(new, old, write)
        fields.drop_disabled(new, old, write.gates)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation."""
        write.warnings.extend(validation.warnings(new))
        return validation.validate_create(new, write.gates, write.sent_as)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation."""
        write.warnings.extend(validation.warnings(new))
        return validation.validate_update(new, old, write.gates, write.sent_as)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation."""
        return validation.validate_status_update(new, old, write.gates, write.sent_as)


class CountedStrategy(DraStrategy):
    """DeviceClass and ResourceSlice: the generation counts spec changes."""

    manages_generation = True


class TemplateStrategy(DraStrategy):
    """ResourceClaimTemplates."""

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Adds the rule of admin access."""
        devices = ((new.get("spec") or {}).get("spec") or {}).get("devices") or {}
        return [
            *admin_access.request_errors(new, devices, write.reader),
            *super().validate_create(new, write),
        ]


class ClaimStrategy(DraStrategy):
    """ResourceClaims: status apart, no generation."""

    status_metadata = ()

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Adds the rule of admin access."""
        devices = (new.get("spec") or {}).get("devices") or {}
        return [
            *admin_access.request_errors(new, devices, write.reader),
            *super().validate_create(new, write),
        ]

    def prepare_create(self, new: Object, write: Write) -> None:
        """A new claim has no status."""
        new["status"] = {}
        super().prepare_create(new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)
        super().prepare_update(new, old, write)

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """Reports about devices that are no longer allocated vanish."""
        super().prepare_status(new, old, write)
        fields.drop_deallocated_devices(new, old, write.gates)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The status itself, and whether the caller may change these parts of it."""
        errors = admin_access.status_errors(new, old, write.reader)
        if GRANULAR_STATUS in write.gates:
            errors += claim_status.check(
                write.user,
                write.verb,
                namespace=new["metadata"].get("namespace", ""),
                version=write.sent_as.rpartition("/")[2],
                new=as_stored(new).get("status") or {},
                old=old.get("status") or {},
                authorizer=write.authorizer,
            )
        return [*errors, *super().validate_status(new, old, write)]


class TaintRuleStrategy(DraStrategy):
    """DeviceTaintRules: status apart; a new effect gets a new time."""

    manages_generation = True
    status_metadata = ()

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status; the taint starts now."""
        new["status"] = {}
        taint = (new.get("spec") or {}).get("taint")
        if taint is not None:
            taint.setdefault("timeAdded", timestamp(write.now))
        super().prepare_create(new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays; a changed effect or a removed time starts the taint anew."""
        keep_status(new, old)
        taint = (new.get("spec") or {}).get("taint")
        before = (old.get("spec") or {}).get("taint") or {}
        if taint is not None:
            changed = taint.get("effect") != before.get("effect")
            if "timeAdded" not in taint or (changed and taint["timeAdded"] == before.get("timeAdded")):
                taint["timeAdded"] = timestamp(write.now)
        super().prepare_update(new, old, write)


class PoolStatusStrategy(DraStrategy):
    """ResourcePoolStatusRequests: the status is written once, by the controller."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status."""
        new.pop("status", None)
        super().prepare_create(new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)
        super().prepare_update(new, old, write)
