"""Checks of API versions and feature gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clusters import gates
from clusters.doctor.cluster.model import ClusterCheck, Problem, doubt, fault, unknown
from clusters.doctor.cluster.snapshot import GROUP, Snapshot, Values
from clusters.doctor.model import Wanted
from clusters.gates import GateError

API_SERVER: Final = "kube-apiserver"
_FURTHER: Final = (
    "DynamicResourceAllocation",
    "GenericWorkload",
    "NodeDeclaredFeatures",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
)


def names(snapshot: Snapshot) -> list[str]:
    """The gates around DRA that some component has, or that this version is known to have."""
    seen = {name for values in _components(snapshot).values() for name in values.on}
    seen |= set(gates.GATES.get(snapshot.minor, {}))
    return sorted(name for name in seen if name.startswith("DRA") or name in _FURTHER)


def _components(snapshot: Snapshot) -> dict[str, Values]:
    kubelets = {f"kubelet of {node}": values for node, values in snapshot.kubelets.items()}
    return {**snapshot.components, **kubelets}


def table(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Gate to component to `on`, `off`, `absent` (a component of a version without the gate) or `unknown`."""
    components = _components(snapshot)
    return {
        name: {who: _word(values, name) for who, values in components.items()} for name in names(snapshot)
    }


def _word(values: Values, name: str) -> str:
    if values.problem:
        return "unknown"
    return {True: "on", False: "off", None: "absent"}[values.on.get(name)]


def judge_versions(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Without its API group there is no DRA at all."""
    there = sorted(name for name in snapshot.served if name.startswith(f"{GROUP}/"))
    if not there:
        older = _number(snapshot.minor) < _number(gates.VERSIONS[0])
        flag = f"--runtime-config={GROUP}/v1beta1=true"
        remedy = (
            f"switch on gate DynamicResourceAllocation everywhere and {flag}, or update to {gates.VERSIONS[0]}"
            if older
            else f"take {GROUP}/v1=false out of --runtime-config of the API server"
        )
        yield fault("kube-apiserver", f"Kubernetes {snapshot.version} serves no version of {GROUP}", remedy)
    elif f"{GROUP}/v1" not in there:
        yield doubt(
            "kube-apiserver",
            f"Kubernetes {snapshot.version} serves {', '.join(there)} and not {GROUP}/v1",
            f"drivers need that version ({gates.VERSIONS[0]} and newer serve v1)",
        )


def judge_agreement(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A gate that is on in one component and off in another loses fields, or leaves Pods waiting."""
    rows = table(snapshot)
    for name, row in rows.items():
        groups: dict[str, list[str]] = {}
        for who, word in row.items():
            groups.setdefault(word, []).append(who)
        if "on" in groups and "off" in groups:
            yield fault(
                f"gate {name}",
                f"on in {_few(groups['on'])}, off in {_few(groups['off'])}",
                "give every component the same --feature-gates (kubelets: featureGates of their configuration)",
            )
    silent = [f"{who} ({values.problem})" for who, values in _components(snapshot).items() if values.problem]
    if silent:
        yield unknown(
            "gates",
            f"not known of {_few(silent)}",
            "a kubeconfig that may get /metrics and nodes/proxy says more",
        )
    if snapshot.not_asked:
        yield unknown("gates", f"not asked of {snapshot.not_asked} more kubelets")


def judge_wanted(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """Gates that somebody counts on."""
    try:
        chosen = gates.parse(wanted.feature_gates)
    except GateError as error:
        yield fault("--feature-gates", str(error), "write --feature-gates GATE=true,GATE=false")
        return
    rows = table(snapshot)
    for name, value in chosen.items():
        row = rows.get(name, {})
        word = "on" if value else "off"
        against = [who for who, found in row.items() if found not in (word, "unknown")]
        if name not in rows:
            having = gates.versions_of(name)
            hint = (
                f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it"
                if having
                else "see its spelling"
            )
            yield fault(f"gate {name}", f"Kubernetes {snapshot.version} does not have it", hint)
        elif against:
            yield fault(
                f"gate {name}",
                f"not {word} in {_few(against)}",
                f"set {name}={str(value).lower()} in --feature-gates of every component",
            )
        elif all(found == "unknown" for found in row.values()):
            yield unknown(f"gate {name}", "no component tells")


def judge_apis(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A gate whose API is not served makes who watches it wait for ever, without a word."""
    on: Mapping[str, bool] = snapshot.components.get(API_SERVER, Values()).on
    for name, value in on.items():
        api = gates.needed_api(name, snapshot.minor)
        if value and api and api not in snapshot.served:
            yield fault(
                f"gate {name}",
                f"it is on, and {api} is not served: components that ask for it wait for ever",
                f"add --runtime-config={api}=true to the API server, or switch the gate off",
            )


def _few(words: list[str]) -> str:
    shown = ", ".join(words[:3])
    return shown if len(words) <= 3 else f"{shown} and {len(words) - 3} more"


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split(".") if part.isdigit())


CHECKS: Final = (
    ClusterCheck("api-versions", f"The API server serves {GROUP}/v1.", judge_versions, ("apis",)),
    ClusterCheck("gates-agree", "Every component has the same feature gates.", judge_agreement),
    ClusterCheck("gates-wanted", "The gates of --feature-gates are on (or off) everywhere.", judge_wanted),
    ClusterCheck("gates-api", "The API that a gate needs is served.", judge_apis, ("apis",)),
)
