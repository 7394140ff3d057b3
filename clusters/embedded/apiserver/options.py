"""Options of requests, from the query or from a DeleteOptions body (api-machinery sections 6, 9, 10, 11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clusters.api_status import ApiError, bad_request, invalid
from clusters.request_info import FieldRequirement
from dra_api.errors import FieldError

_GROUP = "meta.k8s.io"
_MAX_MANAGER = 128
_FIELD_VALIDATIONS = ("Ignore", "Warn", "Strict")
_INTEGER = re.compile(r"[+-]?[0-9]+")
# Leading zeros aside no number of 64 bits is longer; Python refuses to read thousands of digits.
_MAX_DIGITS = 100
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True)
class WriteOptions:
    """Options of create, update and patch. `field_validation` is Strict, Warn or Ignore."""

    dry_run: bool = False
    field_manager: str = "unknown"
    field_validation: str = "Warn"
    force: bool = False

    def body(self, kind: str) -> dict[str, Any]:
        """The options object as admission sees it."""
        options: dict[str, Any] = {"kind": kind, "apiVersion": f"{_GROUP}/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        options |= {"fieldManager": self.field_manager, "fieldValidation": self.field_validation}
        return options


@dataclass(frozen=True)
class DeleteOptions:
    """Options of delete; `grace` None means not given."""

    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan_dependents: bool | None = None
    policy: str | None = None
    dry_run: bool = False

    def body(self) -> dict[str, Any]:
        """The options object as admission sees it."""
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": f"{_GROUP}/v1"}
        if self.grace is not None:
            options["gracePeriodSeconds"] = self.grace
        if self.policy is not None:
            options["propagationPolicy"] = self.policy
        if self.dry_run:
            options["dryRun"] = ["All"]
        return options


@dataclass(frozen=True)
class ListOptions:
    """Options of list and watch, checked. `resource_version` is the text of the query."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout: float | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None
    fields: tuple[FieldRequirement, ...] = field(default=())


def truth(text: str) -> bool:
    """A boolean query option: anything but false, 0 and nothing."""
    return text.lower() not in ("", "false", "0", "f")


def _number(query: Mapping[str, str], key: str) -> int | None:
    text = query.get(key)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > _MAX_DIGITS or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def check_dry_run(values: list[str], kind: str) -> bool:
    """Whether this is a dry run; raises ApiError 422 for values other than All."""
    if not values:
        return False
    if any(value != "All" for value in values):
        error = FieldError("NotSupported", "dryRun", 'supported values: "All"', values)
        raise invalid(f"{kind}", _GROUP, "", [error])
    return True


def default_manager(user_agent: str | None) -> str:
    """The field manager of a client that names none: its program name."""
    name = "".join(filter(str.isprintable, (user_agent or "").split("/")[0]))
    return name.encode()[:_MAX_MANAGER].decode("utf-8", "ignore") or "unknown"


def write_options(
    query: Mapping[str, str], dry_run: list[str], user_agent: str | None, kind: str, *, apply: bool = False
) -> WriteOptions:
    """Options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions. Raises ApiError 422."""
    errors: list[FieldError] = []
    manager = query.get("fieldManager", "")
    force = query.get("force")
    if kind == "PatchOptions":
        if apply and not manager:
            errors.append(FieldError("Required", "fieldManager", "is required for apply patch"))
        if not apply and force is not None:
            errors.append(FieldError("Forbidden", "force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > _MAX_MANAGER:
        errors.append(FieldError("TooLong", "fieldManager", f"may not be more than {_MAX_MANAGER} bytes"))
    if not manager.isprintable():
        bad = next(char for char in manager if not char.isprintable())
        detail = f"invalid character U+{ord(bad):04X} (at position {manager.index(bad)})"
        errors.append(FieldError("Invalid", "fieldManager", detail, manager))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in _FIELD_VALIDATIONS:
        detail = 'supported values: "Ignore", "Strict", "Warn"'
        errors.append(FieldError("NotSupported", "fieldValidation", detail, validation))
    if errors:
        raise invalid(kind, _GROUP, "", errors)
    return WriteOptions(
        dry_run=check_dry_run(dry_run, kind),
        field_manager=manager or default_manager(user_agent),
        field_validation=validation,
        force=force is not None and truth(force),
    )


def delete_options_of_query(query: Mapping[str, str], dry_run: list[str]) -> DeleteOptions:
    """Options of a DELETE without a body."""
    orphan = query.get("orphanDependents")
    return _checked(
        DeleteOptions(
            grace=_number(query, "gracePeriodSeconds"),
            orphan_dependents=None if orphan is None else truth(orphan),
            policy=query.get("propagationPolicy") or None,
            dry_run=check_dry_run(dry_run, "DeleteOptions"),
        )
    )


def delete_options_of_body(body: Mapping[str, Any]) -> DeleteOptions:
    """Options of a decoded DeleteOptions object."""
    preconditions = body.get("preconditions") or {}
    return _checked(
        DeleteOptions(
            grace=body.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            orphan_dependents=body.get("orphanDependents"),
            policy=body.get("propagationPolicy"),
            dry_run=check_dry_run(list(body.get("dryRun") or []), "DeleteOptions"),
        )
    )


def _checked(options: DeleteOptions) -> DeleteOptions:
    errors: list[FieldError] = []
    if options.policy is not None and options.policy not in _POLICIES:
        names = ", ".join(f'"{name}"' for name in sorted((*_POLICIES, "nil"))).replace('"nil"', "nil")
        errors.append(
            FieldError("NotSupported", "propagationPolicy", f"supported values: {names}", options.policy)
        )
    if options.policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError("Invalid", "propagationPolicy", detail, options.policy))
    if errors:
        raise invalid("DeleteOptions", _GROUP, "", errors)
    return options


def _list_errors(options: ListOptions, *, watch: bool) -> list[FieldError]:
    match, version = options.match, options.resource_version
    errors: list[FieldError] = []
    if watch:
        if options.send_initial_events is not None and match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            return [FieldError("Forbidden", "resourceVersionMatch", detail)]
        if match and options.send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            return [FieldError("Forbidden", "resourceVersionMatch", detail)]
        return errors
    if options.send_initial_events is not None:
        errors.append(FieldError("Forbidden", "sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not match:
        return errors
    name = "resourceVersionMatch"
    if not version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        errors.append(FieldError("Forbidden", name, detail))
    if options.continue_token:
        errors.append(
            FieldError("Forbidden", name, "resourceVersionMatch is forbidden when continue is provided")
        )
    if match not in ("Exact", "NotOlderThan"):
        detail = 'supported values: "Exact", "NotOlderThan", ""'
        errors.append(FieldError("NotSupported", name, detail, match))
    if match == "Exact" and version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.append(FieldError("Forbidden", name, detail))
    return errors


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    """Options of a list or a watch; raises ApiError 400 or 422."""
    initial = query.get("sendInitialEvents")
    timeout = _number(query, "timeoutSeconds")
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=max(_number(query, "limit") or 0, 0),
        continue_token=query.get("continue", ""),
        timeout=timeout if timeout else None,
        bookmarks=truth(query.get("allowWatchBookmarks", "")),
        send_initial_events=None if initial is None else truth(initial),
    )
    unstated = options.send_initial_events is None and not options.match
    if watch and unstated and options.resource_version in ("", "0"):
        # Old forms of the same request mean the new one, a mark after the initial events included.
        options = replace(options, send_initial_events=True, match="NotOlderThan")
    errors = _list_errors(options, watch=watch)
    if errors:
        raise invalid("ListOptions", _GROUP, "", errors)
    return options


def parse_revision(text: str) -> int:
    """A resourceVersion as a number; ValueError with Go's wording."""
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    if len(text) > _MAX_DIGITS or int(text) >= 2**64:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def too_large_revision(asked: int, current: int) -> ApiError:
    """504: a resourceVersion from the future."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        {"Retry-After": "1"},
    )
