"""Node, Namespace, ConfigMap, Secret and ServiceAccount (api-machinery section 20)."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import (
    STATUS_METADATA,
    Strategy,
    Write,
    copied,
    keep_status,
    restore,
)
from dra_api.errors import FieldError
from dra_api.validation import names

NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_DATA_LIMIT: Final = 1024 * 1024


class NodeStrategy(Strategy):
    """Nodes keep the status they are created with; allocatable defaults to capacity."""

    def default(self, obj: Object, now: float) -> None:
        """Allocatable = capacity, and the parts of the status that JSON always shows."""
        status: dict[str, Any] = obj.setdefault("status", {})
        if "capacity" in status:
            allocatable = status.setdefault("allocatable", {})
            for name, quantity in status["capacity"].items():
                allocatable.setdefault(name, quantity)
        obj.setdefault("spec", {})

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """providerID and podCIDR can be set once."""
        errors: list[FieldError] = []
        for name in ("providerID", "podCIDR"):
            before = old.get("spec", {}).get(name)
            if before and new.get("spec", {}).get(name) != before:
                detail = "node updates may not change " + name + ' except from "" to valid'
                errors.append(FieldError("Forbidden", f"spec.{name}", detail))
        return errors


class NamespaceStrategy(Strategy):
    """Namespaces carry the finalizer `kubernetes` in their spec and their own name as a label."""

    name_rule = staticmethod(names.is_label)

    def default(self, obj: Object, now: float) -> None:
        """The label with the namespace's name."""
        name = obj.get("metadata", {}).get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = name

    def prepare_create(self, new: Object, write: Write) -> None:
        """Active, with the finalizer of the namespace controller."""
        self.default(new, write.now)
        new["status"] = {"phase": "Active"}
        finalizers = new.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Finalizers of the spec change through /finalize only."""
        self.default(new, write.now)
        keep_status(new, old)
        new["spec"] = copied(old.get("spec", {}))

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The phase follows the deletion."""
        phase = new.get("status", {}).get("phase", "")
        deleting = "deletionTimestamp" in new["metadata"]
        if deleting and phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [FieldError("Invalid", "status.Phase", detail, phase)]
        if not deleting and phase != "Active":
            detail = "may only be 'Active' if `deletionTimestamp` is empty"
            return [FieldError("Invalid", "status.Phase", detail, phase)]
        return []


def _size(data: dict[str, Any], *, encoded: bool) -> int:
    total = 0
    for value in data.values():
        text = str(value)
        total += (len(text) * 3) // 4 - text[-2:].count("=") if encoded else len(text.encode())
    return total


def _base64_errors(data: dict[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in data.items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            errors.append(FieldError("Invalid", f"{field}[{key}]", "must be base64", value))
    return errors


class ConfigMapStrategy(Strategy):
    """ConfigMaps: size limit and the immutable flag."""

    _parts: tuple[str, ...] = ("data", "binaryData")

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """At most 1 MiB; a key in one of the two maps only."""
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        errors = [
            FieldError("Invalid", f"data[{key}]", "duplicate of key present in binaryData", key)
            for key in data
            if key in binary
        ]
        if _size(data, encoded=False) + _size(binary, encoded=True) > _DATA_LIMIT:
            errors.append(FieldError("TooLong", "[]", f"may not be more than {_DATA_LIMIT} bytes"))
        return errors

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """Data of an immutable object stay as they are."""
        errors = self.validate_create(new, write)
        if old.get("immutable"):
            if not new.get("immutable"):
                errors.append(
                    FieldError("Forbidden", "immutable", "field is immutable when `immutable` is set")
                )
            for name in self._parts:
                if (new.get(name) or {}) != (old.get(name) or {}):
                    errors.append(FieldError("Forbidden", name, "field is immutable when `immutable` is set"))
        return errors


class SecretStrategy(ConfigMapStrategy):
    """Secrets: type Opaque by default, stringData merged into data."""

    _parts = ("data",)

    def default(self, obj: Object, now: float) -> None:
        """stringData wins over data and is not stored."""
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()
        if not obj.get("type"):
            obj["type"] = "Opaque"

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """At most 1 MiB."""
        data = new.get("data") or {}
        if _size(data, encoded=True) > _DATA_LIMIT:
            return [FieldError("TooLong", "data", f"may not be more than {_DATA_LIMIT} bytes")]
        return []

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The type cannot change."""
        errors = super().validate_update(new, old, write)
        if new.get("type") != old.get("type"):
            errors.append(FieldError("Invalid", "type", "field is immutable", new.get("type")))
        return errors


def prepare_finalize(new: Object, old: Object) -> None:
    """PUT namespaces/NAME/finalize changes the finalizers of the spec, nothing else."""
    finalizers = (new.get("spec") or {}).get("finalizers")
    keep_status(new, old)
    new["spec"] = {"finalizers": finalizers} if finalizers else {}
    for name in STATUS_METADATA:
        restore(new["metadata"], old["metadata"], name)
