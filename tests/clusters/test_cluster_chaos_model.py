"""The model of the chaos tests sees what it is there for."""

from __future__ import annotations

from typing import Any

import pytest
from chaos_model import FINALIZER, Change, Model, judge

GPU = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "request": "r"}
OTHER = {**GPU, "device": "gpu-1"}


def claim(
    uid: str, *results: dict[str, Any], users: tuple[str, ...] = (), final: bool = True
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": uid, "namespace": "default", "uid": uid}
    if final:
        metadata["finalizers"] = [FINALIZER]
    status: dict[str, Any] = {}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}}
    if users:
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": user} for user in users]
    return {"kind": "ResourceClaim", "metadata": metadata, "status": status}


def pod(uid: str, node: str = "", phase: str = "Pending", state: str = "waiting") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {
            "resourceClaims": [{"name": "r", "resourceClaimName": "c"}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase, "containerStatuses": [{"state": {state: {}}}]},
    }


def history(*objects: dict[str, Any], removed: tuple[int, ...] = ()) -> Model:
    """Judge the writes of objects, the first with revision 1; `removed` are the revisions of removals."""
    return judge(Change(revision, revision in removed, obj) for revision, obj in enumerate(objects, 1))


LIFE = (
    pod("p"),
    claim("c"),
    claim("c", GPU, users=("p",)),
    pod("p", "n1"),
    pod("p", "n1", "Running", "running"),
    pod("p", "n1", "Succeeded", "terminated"),
    claim("c"),
    claim("c"),
)


def test_a_life_in_order_has_no_problems_and_leaves_no_holder() -> None:
    model = history(*LIFE, removed=(8,))
    assert (model.problems, model.holders, model.ran) == ([], {}, {"p"})


def test_order_is_that_of_revisions() -> None:
    changes = [Change(revision, revision == 8, obj) for revision, obj in enumerate(LIFE, 1)]
    assert judge(reversed(changes)).problems == []


RUNS = (pod("p"), claim("c", GPU, users=("p",)), pod("p", "n1"), pod("p", "n1", "Running", "running"))


def test_a_pod_may_be_bound_without_the_reservation_that_it_had() -> None:
    model = history(
        pod("p"),
        claim("c", GPU, users=("p",)),
        claim("c", GPU),
        pod("p", "n1"),
        claim("c", GPU, users=("p",)),
        pod("p", "n1", "Running", "running"),
    )
    assert model.problems == []


def test_a_pod_that_is_bound_may_lose_its_reservation_before_it_starts() -> None:
    model = history(
        *RUNS[:3],
        claim("c", GPU),
        claim("c", GPU, users=("p",)),
        pod("p", "n1", "Running", "running"),
    )
    assert model.problems == []


@pytest.mark.parametrize("last", [pod("p"), pod("p", "n1", "Succeeded", "terminated")])
def test_a_claim_may_go_with_the_reservation_of_a_pod_that_is_over(last: dict[str, Any]) -> None:
    reserving = claim("c", GPU, users=("p",))
    over = () if last["status"]["phase"] == "Succeeded" else (3,)
    assert history(pod("p"), reserving, last, reserving, removed=(*over, 4)).problems == []


TAKEN_BACK = (pod("p"), claim("c", GPU, users=("p",)), claim("c", GPU))


@pytest.mark.parametrize(
    ("objects", "removed", "text"),
    [
        ((claim("c", GPU), claim("d", GPU)), (), "gets device gpu.example.com/n1/gpu-0, which claim c has"),
        ((claim("c", GPU, final=False),), (), "without the finalizer"),
        ((claim("c", GPU), claim("c", OTHER)), (), "changes its devices"),
        ((claim("c", users=("p",)),), (), "reserved without an allocation"),
        ((pod("p"), *(claim("c", GPU, users=("p",)),) * 2), (3,), "is removed while it is reserved"),
        ((*RUNS, RUNS[1]), (5,), "is removed while it is reserved"),
        ((pod("p"), claim("c"), pod("p", "n1")), (), "is bound while claim c has no allocation"),
        ((pod("p"), claim("c", GPU), pod("p", "n1")), (), "is bound while claim c is not reserved for it"),
        ((*TAKEN_BACK, pod("q", "n1")), (), "Pod q is bound while claim c is not reserved for it"),
        (
            (*TAKEN_BACK, pod("p", "n1"), pod("p", "n1", "Running", "running")),
            (),
            "starts while claim c is not reserved for it",
        ),
        (
            (*TAKEN_BACK, claim("c"), claim("c", GPU), pod("p", "n1")),
            (),
            "Pod p is bound while claim c is not reserved for it",
        ),
        ((pod("p"), pod("p", "n1")), (), "is bound without claim c"),
        ((*RUNS, claim("c", GPU)), (), "no longer reserved for Pod p"),
        ((*RUNS, claim("c")), (), "loses its allocation while Pod p may run"),
        ((*RUNS[:3], claim("c", GPU), claim("c")), (), "loses its allocation while Pod p may run"),
        ((*RUNS, pod("p", "n2", "Running", "running")), (), "moves from n1 to n2"),
        ((*RUNS, pod("p", "n1", "Failed"), pod("p", "n1", "Running")), (), "was Failed and is Running"),
    ],
)
def test_each_broken_rule_is_told_once(objects: tuple[Any, ...], removed: tuple[int, ...], text: str) -> None:
    problems = history(*objects, removed=removed).problems
    assert len(problems) == 1, problems
    assert text in problems[0]


def test_admins_look_at_devices_of_others() -> None:
    assert history(claim("c", GPU), claim("d", {**GPU, "adminAccess": True})).problems == []
