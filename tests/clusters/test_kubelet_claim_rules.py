from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.embedded.kubelet.dra.checkpoint import CheckpointError, CheckpointFile, decode, encode
from clusters.embedded.kubelet.dra.claim_names import check_owner, is_reserved, pod_claims
from clusters.embedded.kubelet.dra.claims import (
    SKIP_PREPARE,
    SKIP_UNPREPARE,
    ClaimCache,
    ClaimError,
    ClaimInfo,
    DriverState,
    claim_info,
)
from clusters.embedded.kubelet.dra.health import HealthCache
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.rules import PreparedDevice
from clusters.embedded.kubelet.serving.metrics import Metrics


def device(name: str, *requests: str) -> PreparedDevice:
    return PreparedDevice(requests, "p", name, (f"a.com/c={name}",))


def manager(tmp_path: Path, *infos: ClaimInfo) -> ClaimManager:
    cache = ClaimCache(CheckpointFile(tmp_path / "state"))
    for info in infos:
        cache.add(info)
    health: Any = HealthCache.__new__(HealthCache)
    unused: Any = None
    return ClaimManager(cache, health, unused, unused, {}, Metrics())


def pod(container: dict[str, Any], *claims: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": item, "resourceClaimName": item} for item in claims],
        },
        "status": status,
    }


def container(*claims: tuple[str, str], **requests: str) -> dict[str, Any]:
    entries = [{"name": name, **({"request": request} if request else {})} for name, request in claims]
    return {"name": "c", "resources": {"claims": entries, "requests": requests}}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([("x", "")], ["one", "two", "both", "any"]),
        ([("x", "r")], ["one", "both", "any"]),
        ([("x", "s")], ["two", "both", "any"]),
        # a union; what serves both requests comes twice
        ([("x", "r"), ("x", "s")], ["one", "both", "any", "two", "both", "any"]),
        ([], []),
    ],
)
def test_requests_choose_devices(tmp_path: Path, claims: list[tuple[str, str]], expected: list[str]) -> None:
    devices = (device("one", "r"), device("two", "s"), device("both", "r", "s"), device("any"))
    made = manager(tmp_path, ClaimInfo("1", "x", "default", drivers={"d": DriverState(devices)}))
    own = container(*claims)
    assert made.cdi_devices(pod(own, "x"), own) == tuple(f"a.com/c={name}" for name in expected)


def test_a_claim_that_is_not_prepared_is_an_error(tmp_path: Path) -> None:
    own = container(("x", ""))
    with pytest.raises(
        ClaimError, match="internal error: unable to get claim info for ResourceClaim x in namespace"
    ):
        manager(tmp_path).cdi_devices(pod(own, "x"), own)


def test_extended_resources_get_the_devices_of_their_requests(tmp_path: Path) -> None:
    devices = (device("one", "container-0-request-0"), device("two", "container-1-request-0"))
    made = manager(tmp_path, ClaimInfo("1", "ext", "default", drivers={"d": DriverState(devices)}))
    own = container(**{"a.com/gpu": "1"})
    mappings = [
        {"containerName": "c", "resourceName": "a.com/gpu", "requestName": "container-0-request-0"},
        {"containerName": "other", "resourceName": "a.com/gpu", "requestName": "container-1-request-0"},
        {"containerName": "c", "resourceName": "a.com/unasked", "requestName": "container-1-request-0"},
    ]
    status = {"resourceClaimName": "ext", "requestMappings": mappings}
    assert made.cdi_devices(pod(own, extendedResourceClaimStatus=status), own) == ("a.com/c=one",)


def results(*entries: tuple[str, list[str]]) -> dict[str, Any]:
    listed = [{"driver": driver, "skipNodeOperations": skips} for driver, skips in entries]
    return {
        "metadata": {"name": "x", "namespace": "default", "uid": "1"},
        "status": {"allocation": {"devices": {"results": listed}}},
    }


@pytest.mark.parametrize(
    ("skips", "prepare", "unprepare"),
    [
        ([[]], False, False),
        ([["*"]], True, True),
        ([[SKIP_PREPARE]], True, False),
        ([["*"], [SKIP_UNPREPARE]], False, True),
        ([["*"], []], False, False),
        ([[SKIP_PREPARE, SKIP_UNPREPARE], [SKIP_PREPARE]], True, False),
    ],
)
def test_an_operation_is_skipped_only_if_all_results_of_the_driver_say_so(
    skips: list[list[str]], prepare: bool, unprepare: bool
) -> None:
    claim = results(*(("d", item) for item in skips), ("other", []))
    state = claim_info(claim, optional_operations=True).drivers["d"]
    assert (state.skipped(SKIP_PREPARE), state.skipped(SKIP_UNPREPARE)) == (prepare, unprepare)


def test_skipped_operations_need_their_gate() -> None:
    text = "ResourceClaim x: DRAOptionalNodeOperations feature gate is disabled on kubelet"
    with pytest.raises(ClaimError, match=text):
        claim_info(results(("d", ["*"])), optional_operations=False)
    with pytest.raises(ClaimError, match="ResourceClaim x: not allocated"):
        claim_info({"metadata": {"name": "x", "namespace": "n", "uid": "1"}}, optional_operations=False)


def test_names_of_claims() -> None:
    made = pod(
        container(),
        "x",
        resourceClaimStatuses=[{"name": "t", "resourceClaimName": "p-t-1"}, {"name": "none"}],
    )
    made["spec"]["resourceClaims"] += [
        {"name": name, "resourceClaimTemplateName": "tpl"} for name in ("t", "none", "later")
    ]
    claims = pod_claims(made, extended=True)
    assert [claim.object_name(made) for claim in claims[:3]] == ["x", "p-t-1", None]
    with pytest.raises(ClaimError, match='pod "default/p": ResourceClaim not created yet'):
        claims[3].object_name(made)


def test_generated_claims_must_be_the_pods_own_or_its_groups() -> None:
    made = pod(container())
    claim: dict[str, Any] = {"metadata": {"name": "x", "namespace": "default", "ownerReferences": []}}
    text = r"ResourceClaim default/x was not created for Pod default/p \(Pod is not owner\)"
    with pytest.raises(ClaimError, match=text):
        check_owner(made, claim, groups=True)
    made["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    with pytest.raises(ClaimError, match=r"\(neither Pod nor PodGroup g is the owner\)"):
        check_owner(made, claim, groups=True)
    claim["metadata"]["ownerReferences"] = [{"kind": "PodGroup", "name": "g", "uid": "9", "controller": True}]
    check_owner(made, claim, groups=True)
    with pytest.raises(ClaimError, match="Pod is not owner"):
        check_owner(made, claim, groups=False)
    claim["status"] = {"reservedFor": [{"resource": "podgroups", "name": "g", "uid": "9"}]}
    assert is_reserved(made, claim, groups=True)
    assert not is_reserved(made, claim, groups=False)


NAMES = st.text(max_size=8)
DEVICES = st.builds(
    PreparedDevice,
    st.lists(NAMES, max_size=2).map(tuple),
    NAMES,
    NAMES,
    st.lists(NAMES, max_size=2).map(tuple),
    st.none() | st.text(min_size=1, max_size=4),
)
STATES = st.builds(
    DriverState,
    st.lists(DEVICES, max_size=2).map(tuple),
    st.lists(st.sampled_from("ab"), unique=True).map(tuple),
)
INFOS = st.builds(
    ClaimInfo,
    uid=NAMES,
    name=NAMES,
    namespace=NAMES,
    pods=st.sets(NAMES, max_size=3),
    drivers=st.dictionaries(NAMES, STATES, max_size=2),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(INFOS, max_size=3, unique_by=lambda info: (info.namespace, info.name)))
def test_what_was_stored_is_known_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, infos: list[ClaimInfo]
) -> None:
    path = tmp_path_factory.mktemp("state") / "dra_manager_state"
    cache = ClaimCache(CheckpointFile(path))
    for info in infos:
        cache.add(info)
    cache.store()
    assert ClaimCache(CheckpointFile(path)).items() == infos


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b'{"Data":1,"Checksum":0}', b"\xff", b'{"Data":"x"}']
)
def test_damaged_content_is_told(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="checkpoint is corrupted"):
        decode(content)


def test_texts_are_written_as_go_writes_them() -> None:
    # Go escapes these three in JSON, and the checksum is over the escaped text.
    assert b"\\\\u003ca\\\\u0026b\\\\u003e" in encode([{"ClaimName": "<a&b>"}])
    assert decode(encode([{"ClaimName": "<a&b>"}])) == [{"ClaimName": "<a&b>"}]
