"""ValidatingAdmissionPolicy (apiserver v0.37.2 `pkg/admission/plugin/policy/validating/dispatcher.go`).

A policy acts from the moment it is stored; a real server needs up to a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from clusters.api_status import ApiError, not_found
from clusters.embedded.apiserver.admission.plugin import Context, Plugin
from clusters.embedded.apiserver.admission.policies.decisions import Denial, ValidatingPolicy
from clusters.embedded.apiserver.admission.policies.evaluation import Input
from clusters.embedded.apiserver.admission.policies.matching import EXEMPT, find_match
from clusters.embedded.apiserver.admission.policies.params import (
    ConfigurationError,
    collect_params,
    find_param_kind,
)
from clusters.embedded.apiserver.admission.policies.subject import NAMESPACES, Match, Subject
from clusters.embedded.apiserver.admission.request import Request
from clusters.embedded.apiserver.storage import Object

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = (_GROUP, "validatingadmissionpolicies")
_BINDINGS: Final = (_GROUP, "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


@dataclass(frozen=True)
class _Hook:
    """A policy with its bindings."""

    policy: Object
    bindings: tuple[Object, ...]


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates the policies that bindings put to use."""

    name: ClassVar[str] = "ValidatingAdmissionPolicy"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._seen: tuple[object, object] | None = None
        self._hooks: list[_Hook] = []
        self._compiled: dict[str, tuple[str, ValidatingPolicy]] = {}

    def validate(self, request: Request) -> None:
        """Refuse what a policy denies, warn about what it only warns of."""
        if (request.group, request.resource) in EXEMPT:
            return
        hooks = self._current()
        if not hooks:
            return
        subject = Subject(request, self.context.resources)
        denied: list[tuple[str, Denial]] = []
        for hook in hooks:
            denied += self._ask(hook, subject)
        if denied:
            raise _refusal(request, *denied[0])

    def _current(self) -> list[_Hook]:
        reader = self.context.reader
        seen = reader.changed(*_POLICIES), reader.changed(*_BINDINGS)
        if seen == self._seen:
            return self._hooks
        bindings: dict[str, list[Object]] = {}
        for binding in reader.list(*_BINDINGS):
            bindings.setdefault((binding.get("spec") or {}).get("policyName", ""), []).append(binding)
        self._hooks = [
            _Hook(policy, tuple(bindings[policy["metadata"]["name"]]))
            for policy in reader.list(*_POLICIES)
            if policy["metadata"]["name"] in bindings
        ]
        used = {hook.policy["metadata"]["name"] for hook in self._hooks}
        self._compiled = {name: entry for name, entry in self._compiled.items() if name in used}
        self._seen = seen
        return self._hooks

    def _policy(self, policy: Object) -> ValidatingPolicy:
        metadata = policy["metadata"]
        entry = self._compiled.get(metadata["name"])
        if entry is None or entry[0] != metadata["resourceVersion"]:
            entry = metadata["resourceVersion"], ValidatingPolicy(policy.get("spec") or {})
            self._compiled[metadata["name"]] = entry
        return entry[1]

    def _ask(self, hook: _Hook, subject: Subject) -> Iterator[tuple[str, Denial]]:
        """The denials of one policy, each with the words that name policy and binding."""
        context, spec = self.context, hook.policy.get("spec") or {}
        name = hook.policy["metadata"]["name"]
        match = find_match(subject, spec.get("matchConstraints") or {}, context.reader)
        if match is None:
            return
        ignores = spec.get("failurePolicy") == "Ignore"
        try:
            kind = find_param_kind(spec, context.resources)
        except ConfigurationError as error:
            if not ignores:
                yield f"'{name}'", Denial(f"failed to configure policy: {error}")
            return
        for binding in hook.bindings:
            bound = binding.get("spec") or {}
            where = f"'{name}' with binding '{binding['metadata']['name']}'"
            narrowed = bound.get("matchResources")
            if narrowed is not None and find_match(subject, narrowed, context.reader) is None:
                continue
            try:
                params = collect_params(kind, bound.get("paramRef"), subject.namespace, context.reader)
            except ConfigurationError as error:
                if not ignores:
                    yield where, Denial(f"failed to configure binding: {error}")
                continue
            for denial in self._denials(hook.policy, subject, match, params):
                yield from _act(bound.get("validationActions") or [], where, denial, subject.request)

    def _denials(self, policy: Object, subject: Subject, match: Match, params: Any) -> list[Denial]:
        namespace = self._namespace(subject) if params else None
        compiled = self._policy(policy)
        found: list[Denial] = []
        for param in params:
            found += compiled.denials(Input(subject, match, param, namespace), self.context.authorizer)
        return found

    def _namespace(self, subject: Subject) -> Object | None:
        request = subject.request
        if not subject.namespace or (request.group, request.resource) == NAMESPACES:
            return None
        namespace = self.context.reader.get(*NAMESPACES, "", subject.namespace)
        if namespace is None:
            raise not_found("namespaces", "", subject.namespace)
        return namespace


def _act(actions: Any, where: str, denial: Denial, request: Request) -> Iterator[tuple[str, Denial]]:
    if denial.always:
        yield where, denial
        return
    for action in actions:
        if action == "Deny":
            yield where, denial
        elif action == "Warn":
            request.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy {where}: {denial.message}"
            )


def _refusal(request: Request, where: str, denial: Denial) -> ApiError:
    message = f"ValidatingAdmissionPolicy {where} denied request: {denial.message}"
    error = request.refuse(message)
    error.code, error.reason = _CODES.get(denial.reason, 422), denial.reason
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
