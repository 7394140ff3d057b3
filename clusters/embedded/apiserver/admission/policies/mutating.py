"""MutatingAdmissionPolicy (apiserver v0.37.2 `pkg/admission/plugin/policy/mutating/dispatcher.go`).

A policy acts from the moment it is stored; a real server needs up to a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from clusters.api_status import ApiError
from clusters.embedded.apiserver.admission.plugin import Context, Plugin
from clusters.embedded.apiserver.admission.policies.decisions import ConditionError
from clusters.embedded.apiserver.admission.policies.evaluation import Input
from clusters.embedded.apiserver.admission.policies.hooks import Bound, Hook, Hooks
from clusters.embedded.apiserver.admission.policies.matching import EXEMPT
from clusters.embedded.apiserver.admission.policies.mutations import MutatingPolicy, Mutation, MutationError
from clusters.embedded.apiserver.admission.policies.subject import Subject, namespace_of
from clusters.embedded.apiserver.admission.request import DELETE, Request
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.table import strategy_of
from clusters.embedded.apiserver.views import to_storage

Key = tuple[str, str, str]


@dataclass
class _Rounds:
    """What a request remembers between the first round of admission and the second."""

    invoked: set[Key] = field(default_factory=set)
    """Policies that want to run again when something changes after them."""
    again: set[Key] = field(default_factory=set)
    last: Object | None = None

    def changed(self) -> None:
        """Whoever ran before and wants to know of changes runs again."""
        self.again |= self.invoked
        self.invoked = set()


class MutatingAdmissionPolicy(Plugin):
    """Changes objects as the policies say that bindings put to use."""

    name: ClassVar[str] = "MutatingAdmissionPolicy"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._hooks = Hooks(context, "mutatingadmissionpolicies", MutatingPolicy)

    def mutate(self, request: Request) -> None:
        """Apply all mutations, in the order of the names of policies."""
        if (request.group, request.resource) in EXEMPT or request.operation == DELETE:
            return
        hooks = self._hooks.current()
        if not hooks:
            return
        rounds = request.notes.setdefault(self.name, _Rounds())
        if request.repeated and rounds.last != request.object:
            rounds.changed()
        subject = Subject(request, self.context.resources)
        bound = [(hook, each) for hook in hooks for each in self._hooks.bound(hook, subject)]
        problems: list[tuple[str, str]] = []
        for hook, each in bound:
            where = f'policy "{hook.name}"'
            if each.binding is not None:
                where = f"policy '{hook.name}' with binding '{each.binding['metadata']['name']}'"
            found = [(each.problem, "Forbidden")] if each.problem else self._run(hook, each, request, rounds)
            if not hook.ignores:
                problems += [(f"{where} denied request: {text}", reason) for text, reason in found]
        rounds.last = copied(request.object)
        if problems:
            raise _refusal(request, problems)

    def _run(
        self, hook: Hook[MutatingPolicy], bound: Bound, request: Request, rounds: _Rounds
    ) -> list[tuple[str, str]]:
        """Run one policy for each parameter; returns what failed, with reasons."""
        problems: list[tuple[str, str]] = []
        policy = hook.compiled()
        for param in bound.params:
            subject = Subject(request, self.context.resources)
            given = Input(subject, bound.match, param)
            try:
                if not policy.conditions.hold(given, self.context.authorizer, ignores=hook.ignores):
                    continue
            except ConditionError as error:
                problems.append((str(error), "Invalid"))
                continue
            metadata = (param or {}).get("metadata") or {}
            name = (bound.binding or {}).get("metadata", {}).get("name", "")
            key = hook.name, name, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            if request.repeated and key not in rounds.again:
                continue
            before = copied(request.object)
            for mutation in policy.mutations:
                try:
                    self._mutate(policy, mutation, bound, param, request)
                except MutationError as error:
                    problems.append((str(error), "Invalid"))
            if before != request.object:
                rounds.changed()
                request.repeat = True
            if policy.reinvoked:
                rounds.invoked.add(key)
        return problems

    def _mutate(
        self,
        policy: MutatingPolicy,
        mutation: Mutation,
        bound: Bound,
        param: Object | None,
        request: Request,
    ) -> None:
        subject = Subject(request, self.context.resources)
        if request.object is None:
            return
        namespace = namespace_of(subject, self.context.reader)
        given = Input(subject, bound.match, param, namespace)
        new = policy.mutate(mutation, given, self.context.authorizer)
        own, other = subject.match.kind, bound.match.kind
        if own != other:
            # Upstream does not convert between versions here, and fails instead.
            raise MutationError(
                f"converting ({other.version}.{other.kind}) to ({own.version}.{own.kind}): unknown conversion"
            )
        served = self.context.resources.find(*bound.match.place)
        if served is not None and new.get("kind") == served.resource.kind:
            strategy_of(served.resource).default(new, self.context.now())
            new = to_storage(new, served)
        new = dict(new)
        request.object.clear()
        request.object.update(new)


def _refusal(request: Request, problems: list[tuple[str, str]]) -> ApiError:
    error = request.refuse("admission request denied by policy")
    error.message, error.reason = problems[0]
    error.details = {**(error.details or {}), "causes": [{"message": text} for text, _ in problems]}
    return error
