"""The policies in force: those with a binding, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from clusters.embedded.apiserver.admission.plugin import Context
from clusters.embedded.apiserver.admission.policies.matching import find_match
from clusters.embedded.apiserver.admission.policies.params import (
    ConfigurationError,
    collect_params,
    find_param_kind,
)
from clusters.embedded.apiserver.admission.policies.subject import Match, Subject
from clusters.embedded.apiserver.storage import Object

GROUP: Final = "admissionregistration.k8s.io"
Compiled = TypeVar("Compiled")


@dataclass(frozen=True)
class Hook(Generic[Compiled]):
    """A policy with its bindings."""

    policy: Object
    bindings: tuple[Object, ...]
    compiled: Callable[[], Compiled]

    @property
    def name(self) -> str:
        """The name of the policy."""
        return str(self.policy["metadata"]["name"])

    @property
    def spec(self) -> Mapping[str, Any]:
        """What the policy says."""
        return self.policy.get("spec") or {}

    @property
    def ignores(self) -> bool:
        """Whether a failure of the policy lets requests through."""
        return self.spec.get("failurePolicy") == "Ignore"


@dataclass(frozen=True)
class Bound:
    """A binding that is about a request, with the parameters for each of which its policy is evaluated.

    `problem` says why policy or binding cannot be carried out; `binding` is None where the policy cannot.
    """

    match: Match
    binding: Object | None = None
    params: Sequence[Object | None] = ()
    problem: str = ""


class Hooks(Generic[Compiled]):
    """The policies of one kind, as they are stored."""

    def __init__(
        self, context: Context, policies: str, compile: Callable[[Mapping[str, Any]], Compiled]
    ) -> None:
        """`policies` is their resource, `compile` takes the spec of one."""
        self._context = context
        self._policies = (GROUP, policies)
        self._bindings = (GROUP, policies.removesuffix("policies") + "policybindings")
        self._compile = compile
        self._seen: tuple[object, object] | None = None
        self._hooks: list[Hook[Compiled]] = []
        self._compiled: dict[str, tuple[str, Compiled]] = {}

    def current(self) -> list[Hook[Compiled]]:
        """All policies with bindings, by name."""
        reader = self._context.reader
        seen = reader.changed(*self._policies), reader.changed(*self._bindings)
        if seen == self._seen:
            return self._hooks
        bindings: dict[str, list[Object]] = {}
        for binding in reader.list(*self._bindings):
            bindings.setdefault((binding.get("spec") or {}).get("policyName", ""), []).append(binding)
        self._hooks = [
            Hook(policy, tuple(bindings[policy["metadata"]["name"]]), self._compiler(policy))
            for policy in reader.list(*self._policies)
            if policy["metadata"]["name"] in bindings
        ]
        used = {hook.name for hook in self._hooks}
        self._compiled = {name: entry for name, entry in self._compiled.items() if name in used}
        self._seen = seen
        return self._hooks

    def bound(self, hook: Hook[Compiled], subject: Subject) -> Iterator[Bound]:
        """The bindings of a policy that are about a request."""
        context = self._context
        match = find_match(subject, hook.spec.get("matchConstraints") or {}, context.reader)
        if match is None:
            return
        try:
            kind = find_param_kind(hook.spec, context.resources)
        except ConfigurationError as error:
            yield Bound(match, problem=f"failed to configure policy: {error}")
            return
        for binding in hook.bindings:
            spec = binding.get("spec") or {}
            narrowed = spec.get("matchResources")
            if narrowed is not None and find_match(subject, narrowed, context.reader) is None:
                continue
            try:
                params = collect_params(kind, spec.get("paramRef"), subject.namespace, context.reader)
            except ConfigurationError as error:
                yield Bound(match, binding, problem=f"failed to configure binding: {error}")
                continue
            yield Bound(match, binding, params)

    def _compiler(self, policy: Object) -> Callable[[], Compiled]:
        metadata = policy["metadata"]

        def compiled() -> Compiled:
            entry = self._compiled.get(metadata["name"])
            if entry is None or entry[0] != metadata["resourceVersion"]:
                entry = metadata["resourceVersion"], self._compile(policy.get("spec") or {})
                self._compiled[metadata["name"]] = entry
            return entry[1]

        return compiled
