"""ValidatingAdmissionPolicy (apiserver v0.37.2 `pkg/admission/plugin/policy/validating/dispatcher.go`).

A policy acts from the moment it is stored; a real server needs up to a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from clusters.api_status import ApiError
from clusters.embedded.apiserver.admission.plugin import Context, Plugin
from clusters.embedded.apiserver.admission.policies.decisions import Denial, ValidatingPolicy
from clusters.embedded.apiserver.admission.policies.evaluation import Input
from clusters.embedded.apiserver.admission.policies.hooks import Bound, Hook, Hooks
from clusters.embedded.apiserver.admission.policies.matching import EXEMPT
from clusters.embedded.apiserver.admission.policies.subject import Subject, namespace_of
from clusters.embedded.apiserver.admission.request import Request

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates the policies that bindings put to use."""

    name: ClassVar[str] = "ValidatingAdmissionPolicy"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = Hooks(context, "validatingadmissionpolicies", ValidatingPolicy)

    def validate(self, request: Request) -> None:
        """Refuse what a policy denies, warn about what it only warns of."""
        if (request.group, request.resource) in EXEMPT:
            return
        hooks = self._hooks.current()
        if not hooks:
            return
        subject = Subject(request, self.context.resources)
        denied: list[tuple[str, Denial]] = []
        for hook in hooks:
            denied += self._ask(hook, subject)
        if denied:
            raise _refusal(request, *denied[0])

    def _ask(self, hook: Hook[ValidatingPolicy], subject: Subject) -> Iterator[tuple[str, Denial]]:
        """The denials of one policy, each with the words that name policy and binding."""
        for bound in self._hooks.bound(hook, subject):
            where = f"'{hook.name}'"
            if bound.binding is not None:
                where += f" with binding '{bound.binding['metadata']['name']}'"
            if bound.problem:
                if not hook.ignores:
                    yield where, Denial(bound.problem)
                continue
            actions = ((bound.binding or {}).get("spec") or {}).get("validationActions") or []
            for denial in self._denials(hook, bound, subject):
                yield from _act(actions, where, denial, subject.request)

    def _denials(self, hook: Hook[ValidatingPolicy], bound: Bound, subject: Subject) -> list[Denial]:
        found: list[Denial] = []
        if bound.params:
            namespace = namespace_of(subject, self.context.reader)
            for param in bound.params:
                given = Input(subject, bound.match, param, namespace)
                found += hook.compiled().denials(given, self.context.authorizer)
        return found


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
