"""kubectl against the embedded cluster and against a real one of the same size: it prints the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import kubectl_script
import pytest
import test_kubectl_cluster
import test_kubectl_workloads
from kubectl_kit import VERSIONS, Space, drakit_up
from kubectl_recorder import Entry, Recorder, differences

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]

Play = Callable[..., None]


def plays() -> dict[str, Play]:
    """The tests of whole clusters, and more commands."""
    found = {}
    for module in (kubectl_script, test_kubectl_cluster, test_kubectl_workloads):
        for name, function in vars(module).items():
            if name.startswith("test_") and set(inspect.signature(function).parameters) <= {
                "space",
                "whole_cluster",
            }:
                found[name.removeprefix("test_")] = function
    return found


PLAYS = plays()
OF_ITS_OWN = {
    "get_nodes": "says what a node of the embedded tier is",
    "describe_node": "says how large a node of the embedded tier is",
    "what_simulated_containers_cannot_do_is_said": "a real API server leaves the refusal to the runtime",
}
OF_THE_MOMENT = {
    "the_states_of_pods": "looks at a crash loop within nine seconds, which is too much to ask of a busy machine",
    "logs": "a real kubelet may just remove what the container before has printed",
}
"""Tests that may fail here, where what they print before is compared nevertheless; they have their own place.

What fails for want of time is not compared either.
"""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recorder, Recorder]]:
    """The real cluster and the embedded one."""
    homes = {tier: tmp_path_factory.mktemp(f"home-{tier}") for tier in ("local", "embedded")}
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        started = pool.map(
            lambda tier: stack.enter_context(drakit_up(homes[tier], VERSIONS[0], tier, Recorder)), homes
        )
        real, embedded = started
        assert isinstance(real, Recorder) and isinstance(embedded, Recorder)
        yield real, embedded


_NUMBERS = iter(range(1000))


def play(kubectl: Recorder, name: str, number: int) -> tuple[list[Entry], str]:
    """What one test printed, and what it found wrong."""
    namespace = f"w{number}"
    kubectl("create", "namespace", namespace)
    kubectl(
        "wait",
        "-n",
        namespace,
        "--for=create",
        "serviceaccount/default",
        "configmap/kube-root-ca.crt",
        "--timeout=60s",
    )
    kubectl.entries.clear()
    parts: dict[str, Any] = {"space": Space(kubectl, namespace), "whole_cluster": kubectl}
    function = PLAYS[name]
    wrong = ""
    try:
        function(**{key: parts[key] for key in inspect.signature(function).parameters})
    except AssertionError as error:
        wrong = str(error) or repr(error)
    entries = list(kubectl.entries)
    kubectl("-n", namespace, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
    kubectl("delete", "namespace", namespace, "--wait=false")
    return entries, wrong


ROUNDS = 3
"""A cluster does not print the same twice where chance rules: which node got which Pod, which event came first.

A difference between the servers is one that a play shows every time.
"""


def compared(clusters: tuple[Recorder, Recorder], name: str) -> list[str]:
    """What one play finds different, or wrong on either cluster."""
    number = next(_NUMBERS)
    with ThreadPoolExecutor(2) as pool:
        (real, wrong), (embedded, wrong_too) = pool.map(lambda each: play(each, name, number), clusters)
    found = []
    if name in OF_THE_MOMENT:
        for failed, entries in ((wrong, real), (wrong_too, embedded)):
            del entries[len(entries) - bool(failed) :]
    else:
        if wrong_too:
            found.append(f"on the embedded cluster: {wrong_too}")
        if wrong and name not in OF_ITS_OWN:
            found.append(f"on the real cluster: {wrong}")
    return found + differences(real, embedded, whole=not (wrong or wrong_too))


@pytest.mark.parametrize("name", PLAYS)
def test_kubectl_prints_the_same(clusters: tuple[Recorder, Recorder], name: str) -> None:
    rounds: list[list[str]] = []
    while len(rounds) < ROUNDS:
        rounds.append(compared(clusters, name))
        if not rounds[-1]:
            return
    pytest.fail(
        "\n".join(f"round {number}: {line}" for number, found in enumerate(rounds, 1) for line in found)
    )
