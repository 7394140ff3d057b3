"""Checks of the settings that a cluster is to have: version, gates, API versions. They look at no host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters import gates
from clusters.doctor.host import Host
from clusters.doctor.model import EMBEDDED, KIND, LOCAL, TIERS, Check, Finding, Wanted, missing, ok, unknown
from clusters.gates import GateError
from clusters.versions import API_VERSIONS, served


@dataclass(frozen=True)
class Setting:
    """What is set: the minor, gates and API versions, and what could not be read of them."""

    version: str
    known: bool
    gates: Mapping[str, bool]
    apis: Mapping[str, bool]
    gates_problem: str = ""
    apis_problem: str = ""


def look(host: Host, wanted: Wanted) -> Setting:
    """Read the words of the command line."""
    known = wanted.minor in gates.VERSIONS
    chosen: dict[str, bool] = {}
    apis: dict[str, bool] = {}
    gates_problem = apis_problem = ""
    try:
        chosen = (
            gates.choose(wanted.feature_gates, wanted.minor) if known else gates.parse(wanted.feature_gates)
        )
    except GateError as error:
        gates_problem = str(error)
    words = [word.strip() for word in wanted.runtime_config.split(",")]
    try:
        apis = gates.parse(",".join(word if "=" in word or not word else f"{word}=true" for word in words))
    except GateError as error:
        apis_problem = str(error)
    return Setting(wanted.minor, known, chosen, apis, gates_problem, apis_problem)


def judge_version(setting: Setting) -> Finding:
    """An embedded cluster has one version only."""
    there = ", ".join(reversed(gates.VERSIONS))
    if not setting.known:
        return missing(f"Kubernetes {setting.version} is not known", f"choose one of {there}")
    if setting.version != gates.LATEST:
        return missing(
            f"Kubernetes {setting.version}: an embedded cluster is {gates.LATEST} and no other",
            f"choose --tier {LOCAL} or {KIND} for {setting.version}",
            blocks=[EMBEDDED],
        )
    return ok(f"Kubernetes {setting.version}")


def _unreadable(setting: Setting) -> Finding | None:
    if not setting.known:
        return unknown(f"Kubernetes {setting.version} is not known")
    if setting.gates_problem:
        return unknown("the gates cannot be read", "see check gate-known")
    return None


def judge_known(setting: Setting) -> Finding:
    """Components end at a gate that they do not know."""
    if setting.gates_problem:
        return missing(setting.gates_problem, "write --feature-gates GATE=true,GATE=false")
    if not setting.known:
        return unknown(f"Kubernetes {setting.version} is not known")
    problems = [_problem({name: value}, setting.version) for name, value in setting.gates.items()]
    problems = [text for text in problems if "unrecognized" in text]
    if problems:
        return missing("; ".join(problems), "leave it out, or choose a version that has it")
    if not setting.gates:
        return ok("all as by default (--feature-gates asks for others)")
    return ok(", ".join(f"{name}={str(value).lower()}" for name, value in setting.gates.items()))


def judge_locked(setting: Setting) -> Finding:
    """Components end at a gate that is set against its lock."""
    if early := _unreadable(setting):
        return early
    table = gates.known(setting.version)
    against = [
        name
        for name, value in setting.gates.items()
        if name in table and table[name].locked and value is not table[name].default
    ]
    if against:
        return missing(
            "; ".join(_problem({name: setting.gates[name]}, setting.version) for name in against),
            "leave it out",
        )
    return ok("none is set against its lock")


def judge_dependencies(setting: Setting) -> Finding:
    """Components end at a gate that needs one that is off."""
    if early := _unreadable(setting):
        return early
    table = gates.known(setting.version)
    free = {
        name: value
        for name, value in setting.gates.items()
        if name in table and not (table[name].locked and value is not table[name].default)
    }
    if problem := _problem(free, setting.version):
        return missing(problem, "switch on what it depends on as well")
    return ok("what the gates depend on is on")


def judge_api(setting: Setting) -> Finding:
    """A gate whose API is not served leaves the scheduler waiting, and every Pod Pending, without a word."""
    if early := _unreadable(setting):
        return early
    there = served(setting.version, setting.apis)
    lacking = {
        name: api
        for name, on in setting.gates.items()
        if on and (api := gates.needed_api(name, setting.version)) and api not in there
    }
    if not lacking:
        return ok("the APIs that the gates need are served")
    needs = "; ".join(f"{name} needs {api}, which is not served" for name, api in lacking.items())
    words = ",".join(f"{api}=true" for api in sorted(set(lacking.values())))
    # On real clusters what gates need is added, unless somebody says otherwise.
    switched_off = any(setting.apis.get(api) is False for api in lacking.values())
    return missing(
        f"{needs}: components that ask for it wait for ever",
        f"add --runtime-config {words}",
        blocks=None if switched_off else [EMBEDDED],
    )


def judge_runtime_config(setting: Setting) -> Finding:
    """Only versions of groups around DRA are known here."""
    if setting.apis_problem:
        return missing(setting.apis_problem, "write --runtime-config GROUP/VERSION=true")
    if not setting.known:
        return unknown(f"Kubernetes {setting.version} is not known")
    groups = {version.partition("/")[0] for version in API_VERSIONS}
    strange = [
        api
        for api in setting.apis
        if api.partition("/")[0] in groups
        and setting.version not in API_VERSIONS.get(_group_version(api), {})
    ]
    strange = [api for api in strange if _group_version(api) != "scheduling.k8s.io/v1"]
    if strange:
        there = ", ".join(version for version, history in API_VERSIONS.items() if setting.version in history)
        return missing(f"Kubernetes {setting.version} has no {', '.join(strange)}", f"there are {there}")
    if not setting.apis:
        return ok("API versions as by default (--runtime-config asks for others)")
    return ok(", ".join(f"{name}={str(value).lower()}" for name, value in setting.apis.items()))


def _group_version(api: str) -> str:
    """A single resource may be named behind its version."""
    return "/".join(api.split("/")[:2])


def _problem(chosen: Mapping[str, bool], version: str) -> str:
    try:
        gates.effective(chosen, version)
    except GateError as error:
        return str(error)
    return ""


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check(
        "version", "The tier has this Kubernetes version (--kubernetes-version).", TIERS, look, judge_version
    ),
    Check("gate-known", "The version has each gate of --feature-gates.", TIERS, look, judge_known),
    Check("gate-locked", "No gate is set against its lock.", TIERS, look, judge_locked),
    Check("gate-dependencies", "What the gates depend on is on.", TIERS, look, judge_dependencies),
    Check("gate-api", "The API that a gate needs is served (--runtime-config).", TIERS, look, judge_api),
    Check(
        "runtime-config", "The version has each API of --runtime-config.", TIERS, look, judge_runtime_config
    ),
)
