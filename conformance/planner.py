"""Decides for every requirement whether it runs, and if not, why."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clusters import gates
from clusters.descriptor import Descriptor
from clusters.document import did_you_mean
from conformance.model import Isolation, Requirement, Result, SkipCause, Verdict


class SelectionError(Exception):
    """A focus or skip pattern that matches nothing."""


@dataclass(frozen=True)
class Target:
    """What the requirements are held against: the cluster's version, all gates of it, and what its tier can do.

    Gates of the version that are not in `gates` count as off, since `unknown_gates` (why it is not known). `lacks` says
    of capabilities why this cluster has them not, where there is more to say.
    """

    version: str
    gates: Mapping[str, bool]
    tier_capabilities: frozenset[str]
    allow_disruptive: bool = True
    unknown_gates: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """`run` in the order of the catalogue; `settled` already have their verdict."""

    run: tuple[Requirement, ...]
    settled: tuple[Result, ...]


def matches(requirement: Requirement, pattern: str) -> bool:
    """Whether a pattern names the requirement: its id, a glob over ids, its area or its suite; case is ignored."""
    pattern = pattern.lower()
    return fnmatch.fnmatchcase(requirement.id.lower(), pattern) or pattern in (
        requirement.area.lower(),
        requirement.suite.lower(),
    )


def check_patterns(requirements: Iterable[Requirement], patterns: Iterable[str]) -> None:
    """Raise SelectionError for a pattern that matches no requirement."""
    known = list(requirements)
    for pattern in patterns:
        if not any(matches(requirement, pattern) for requirement in known):
            words = [requirement.id for requirement in known] + sorted(
                {word for requirement in known for word in (requirement.area, requirement.suite)}
            )
            hint = did_you_mean(pattern.upper(), words) or did_you_mean(pattern.lower(), words)
            raise SelectionError(
                f'"{pattern}" matches no requirement{hint}; "drakit conformance --list" shows them all'
            )


def plan(
    requirements: Iterable[Requirement],
    descriptor: Descriptor,
    target: Target,
    focus: Iterable[str] = (),
    skip: Iterable[str] = (),
) -> Plan:
    """Sort the requirements into those to run and those already settled (disabled, skip)."""
    everything, wanted, unwanted = list(requirements), list(focus), list(skip)
    check_patterns(everything, [*wanted, *unwanted])
    run: list[Requirement] = []
    settled: list[Result] = []
    for requirement in everything:
        if wanted and not any(matches(requirement, pattern) for pattern in wanted):
            settled.append(Result(requirement, Verdict.DISABLED, "not selected by --focus"))
        elif any(matches(requirement, pattern) for pattern in unwanted):
            settled.append(Result(requirement, Verdict.DISABLED, "left out by --skip"))
        elif reason := _not_testable(requirement, descriptor, target):
            cause, text = reason
            settled.append(Result(requirement, Verdict.SKIP, text, cause=cause))
        else:
            run.append(requirement)
    return Plan(tuple(run), tuple(settled))


def minor(version: str) -> tuple[int, int]:
    """(1, 37) for "1.37" or "1.37.2"."""
    major, minor_number = version.split(".")[:2]
    return int(major), int(minor_number)


def _not_testable(
    requirement: Requirement, descriptor: Descriptor, target: Target
) -> tuple[SkipCause, str] | None:
    if minor(target.version) < minor(requirement.since):
        return SkipCause.VERSION, f"needs Kubernetes {requirement.since} or newer; this is {target.version}"
    if requirement.until and minor(target.version) > minor(requirement.until):
        return SkipCause.VERSION, f"ended with Kubernetes {requirement.until}; this is {target.version}"
    if requirement.capability and requirement.capability not in descriptor.capabilities:
        text = f'the descriptor does not declare the capability "{requirement.capability}"'
        return SkipCause.DRIVER, text
    for gate in requirement.gates:
        if gate not in target.gates and target.unknown_gates and gate in gates.known(target.version):
            return SkipCause.GATE, f"whether feature gate {gate} is on is not known: {target.unknown_gates}"
        if gate not in target.gates:
            return SkipCause.VERSION, f"Kubernetes {target.version} has no feature gate {gate}"
        if not target.gates[gate]:
            return SkipCause.GATE, f"feature gate {gate} is off"
    for need in requirement.needs:
        if need not in target.tier_capabilities:
            why = target.lacks.get(need)
            return SkipCause.TIER, why or f'this kind of cluster cannot do "{need}"'
    for hook in requirement.hooks:
        if hook not in descriptor.hooks:
            return SkipCause.DRIVER, f"the descriptor has no hook {hook}"
    if requirement.isolation is Isolation.DISRUPTIVE and not target.allow_disruptive:
        text = "disruptive, and the cluster was not created by drakit; --allow-disruptive runs it"
        return SkipCause.TIER, text
    return None
