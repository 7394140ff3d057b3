"""Admission policies and their bindings; their rules live in dra_api.

Source: kubernetes v1.37.2 `pkg/registry/admissionregistration`.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.auth.attributes import Attributes
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.resource_table import TABLE
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import Strategy, Write, keep_status
from dra_api import defaults_admission
from dra_api.errors import FieldError
from dra_api.validation import admission_policy

_GROUP: Final = "admissionregistration.k8s.io"
_STATIC: Final = ".static.k8s.io"
_RESERVED: Final = (
    f'names ending with "{_STATIC}" are reserved for static manifest-based configurations and cannot be managed '
    "via the API"
)


class _AdmissionStrategy(Strategy):
    """What policies and bindings share."""

    manages_generation = True

    def default(self, obj: Object, now: float) -> None:
        """See dra_api.defaults_admission."""
        defaults_admission.apply_admission_defaults(obj)


class PolicyStrategy(_AdmissionStrategy):
    """ValidatingAdmissionPolicies."""

    status_metadata = ()

    def prepare_create(self, new: Object, write: Write) -> None:
        """No status."""
        new["status"] = {}
        super().prepare_create(new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)
        super().prepare_update(new, old, write)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Rules, and whether the writer may read parameters."""
        errors = [*self._errors(new, None), *_refuse_static(new)]
        return errors or _check_param_kind(new, write)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The same for a change; rights count for new kinds of parameters only."""
        _warn_static(new, write)
        errors = self._errors(new, old)
        if errors or _spec(old).get("paramKind") == _spec(new).get("paramKind"):
            return errors
        return _check_param_kind(new, write)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.admission_policy."""
        return admission_policy.validate_policy_status(new)

    @staticmethod
    def _errors(new: Object, old: Object | None) -> list[FieldError]:
        return admission_policy.validate_policy(new, old)


class MutatingPolicyStrategy(PolicyStrategy):
    """MutatingAdmissionPolicies, which have no status."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """The first generation."""
        _AdmissionStrategy.prepare_create(self, new, write)

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Changes count."""
        _AdmissionStrategy.prepare_update(self, new, old, write)

    @staticmethod
    def _errors(new: Object, old: Object | None) -> list[FieldError]:
        return admission_policy.validate_mutating_policy(new, old)


class BindingStrategy(_AdmissionStrategy):
    """Bindings of ValidatingAdmissionPolicies."""

    policies = "validatingadmissionpolicies"
    """The resource of the policies."""

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """Rules, and whether the writer may read the parameters."""
        errors = [*self._errors(new), *_refuse_static(new)]
        return errors or _check_param_ref(new, write, self.policies)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """The same for a change; rights count for other parameters or policies only."""
        _warn_static(new, write)
        errors = self._errors(new)
        same = all(_spec(old).get(field) == _spec(new).get(field) for field in ("paramRef", "policyName"))
        return errors if errors or same else _check_param_ref(new, write, self.policies)

    @staticmethod
    def _errors(new: Object) -> list[FieldError]:
        return admission_policy.validate_binding(new)


class MutatingBindingStrategy(BindingStrategy):
    """Bindings of MutatingAdmissionPolicies."""

    policies = "mutatingadmissionpolicies"

    @staticmethod
    def _errors(new: Object) -> list[FieldError]:
        return admission_policy.validate_mutating_binding(new)


def _spec(obj: Object) -> dict[str, Any]:
    return obj.get("spec") or {}


def _is_static(obj: Object) -> bool:
    """Whether the name is one that only policies in files of a server may have."""
    return str(obj["metadata"].get("name") or "").endswith(_STATIC)


def _refuse_static(new: Object) -> list[FieldError]:
    if not _is_static(new):
        return []
    return [FieldError("Invalid", "metadata.name", _RESERVED, new["metadata"]["name"])]


def _warn_static(new: Object, write: Write) -> None:
    if _is_static(new):
        write.warnings.append(f"metadata.name: {_RESERVED}")


def _resource(group: str, version: str, kind: str) -> str | None:
    found = (each for each in TABLE if (each.group, each.kind) == (group, kind) and version in each.versions)
    return next((each.plural for each in found), None)


def _shown(user: User) -> str:
    """A user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


def _check_param_kind(policy: Object, write: Write) -> list[FieldError]:
    kind = _spec(policy).get("paramKind")
    if kind is None or MASTERS in write.user.groups:
        return []
    group, _, version = kind["apiVersion"].rpartition("/")
    resource = _resource(group, version, kind["kind"]) or "*"
    access = Attributes(write.user, "get", group, version, resource, namespace="*", name="*")
    if write.authorizer.authorize(access).allowed:
        return []
    why = (
        f'user {_shown(write.user)} must have "get" permission on all objects of the referenced paramKind '
        f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
    )
    return [FieldError("Forbidden", "spec.paramKind", why)]


def _check_param_ref(binding: Object, write: Write, policies: str) -> list[FieldError]:
    reference = _spec(binding).get("paramRef")
    if reference is None or MASTERS in write.user.groups:
        return []
    user, name = _shown(write.user), reference.get("name", "")
    verb = "get" if name else "list"
    policy = write.reader.get(_GROUP, policies, "", _spec(binding).get("policyName", ""))
    group = version = resource = "*"
    unknown = f'user {user} does not have "{verb}" permission for all groups, versions and resources'
    why = f'user {user} does not have "{verb}" permission on the object referenced by paramRef'
    if policy is None:
        why = (
            f"unable to get policy {_spec(binding).get('policyName', '')} to determine minimum required "
            f"permissions and {unknown}"
        )
    elif _spec(policy).get("paramKind"):
        kind = _spec(policy)["paramKind"]
        group, _, version = kind["apiVersion"].rpartition("/")
        found = _resource(group, version, kind["kind"])
        if found is None:
            shown = f"&ParamKind{{APIVersion:{kind['apiVersion']},Kind:{kind['kind']},}}"
            why = (
                f"unable to resolve paramKind {shown} to determine minimum required permissions and {unknown}"
            )
        else:
            resource = found
    access = Attributes(
        write.user, verb, group, version, resource, namespace=reference.get("namespace", ""), name=name
    )
    return (
        [] if write.authorizer.authorize(access).allowed else [FieldError("Forbidden", "spec.paramRef", why)]
    )
