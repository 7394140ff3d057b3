from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from clusters.embedded.kubelet.rules import (
    Backoff,
    ClaimReference,
    PluginError,
    PreparedDevice,
    call_target,
    check_prepare,
    check_unprepare,
    choose_health_service,
    choose_service,
    rpc_text,
)
from node_api.gen import dra_v1_pb2, dra_v1beta1_pb2

CLAIMS = [ClaimReference("ns", "c1", "u1"), ClaimReference("ns", "c2", "u2")]


@pytest.mark.parametrize(
    ("versions", "service", "health"),
    [
        (["v1.DRAPlugin"], "v1.DRAPlugin", None),
        (["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1.DRAPlugin", None),
        (
            ["v9.DRAPlugin", "v1alpha1.DRAResourceHealth", "v1.DRAPlugin"],
            "v1.DRAPlugin",
            "v1alpha1.DRAResourceHealth",
        ),
        (
            ["v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth", "v1.DRAPlugin"],
            "v1.DRAPlugin",
            "v1.DRAResourceHealth",
        ),
    ],
)
def test_the_plugins_order_decides_for_calls_and_the_kubelets_for_health(
    versions: list[str], service: str, health: str | None
) -> None:
    assert choose_service("d", "/e", versions) == service
    assert choose_health_service(versions) == health


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        (
            ["1.0.0"],
            (
                'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet '
                '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
        ([], "empty list of supported gRPC services (aka supported versions)"),
    ],
)
def test_unusable_versions(versions: list[str], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        choose_service("d.io", "/e", versions)
    prefix = "invalid supported gRPC versions of DRA driver plugin d.io at endpoint /e: "
    assert str(caught.value) == prefix + text


def test_waiting_doubles_from_half_a_second_to_two_minutes() -> None:
    # 0.5 * 2^7 = 64, 0.5 * 2^8 = 128 > 122
    backoff = Backoff()
    assert [backoff.delay(n) for n in (1, 2, 3, 8, 9, 10**6)] == [0.5, 1.0, 2.0, 64.0, 122.0, 122.0]


@dataclass
class Target:
    name: str
    connected: bool


@pytest.mark.parametrize(
    ("states", "chosen"), [([1, 1, 1], 2), ([1, 1, 0], 1), ([1, 0, 0], 0), ([0, 0, 0], 2), ([], None)]
)
def test_the_newest_connected_plugin_is_called_else_the_newest(states: list[int], chosen: int | None) -> None:
    targets = [Target(str(index), bool(state)) for index, state in enumerate(states)]
    target = call_target(targets)
    assert (target and target.name) == (None if chosen is None else str(chosen))


@pytest.mark.parametrize(
    ("code", "details", "text"),
    [
        (grpc.StatusCode.INTERNAL, "boom", "rpc error: code = Internal desc = boom"),
        (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "Deadline Exceeded",
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: UNAVAILABLE: unix:/s: connect: Connection refused (111)",
            (
                'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
                'dial unix /s: connect: connection refused"'
            ),
        ),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", "rpc error: code = Unavailable desc = Socket closed"),
    ],
)
def test_failed_calls_are_worded_as_in_go(code: grpc.StatusCode, details: str, text: str) -> None:
    assert rpc_text(code, details, "/s") == text


def prepared(claims: dict[str, Any]) -> Any:
    return dra_v1_pb2.NodePrepareResourcesResponse(claims=claims)


def unprepared(claims: dict[str, Any]) -> Any:
    return dra_v1_pb2.NodeUnprepareResourcesResponse(claims=claims)


@pytest.mark.parametrize(
    ("answers", "text", "reason"),
    [
        ({"u1": {}, "u2": {"error": "bad claim"}}, "{} failed for ResourceClaim c2: bad claim", "claim"),
        ({"u1": {}, "u2": {}, "u3": {}}, "{} returned result for unknown claim UID u3", "unknown-claim"),
        ({"u1": {}}, "{} skipped 1 ResourceClaims", "skipped"),
        ({}, "{} skipped 2 ResourceClaims", "skipped"),
    ],
)
def test_wrong_answers(answers: dict[str, Any], text: str, reason: str) -> None:
    with pytest.raises(PluginError) as caught:
        check_prepare(CLAIMS, prepared(answers))
    assert (str(caught.value), caught.value.reason) == (text.format("NodePrepareResources"), reason)
    with pytest.raises(PluginError) as caught:
        check_unprepare(CLAIMS, unprepared(answers))
    assert (str(caught.value), caught.value.reason) == (text.format("NodeUnprepareResources"), reason)


def test_devices_are_taken_as_answered() -> None:
    device = {"request_names": ["r"], "pool_name": "p", "device_name": "d", "cdi_device_ids": ["x", "y"]}
    answer = prepared({"u1": {"devices": [{**device, "share_id": "s"}, device]}, "u2": {}})
    assert check_prepare(CLAIMS, answer) == {
        "u1": (
            PreparedDevice(("r",), "p", "d", ("x", "y"), "s"),
            PreparedDevice(("r",), "p", "d", ("x", "y"), None),
        ),
        "u2": (),
    }
    old = dra_v1beta1_pb2.NodePrepareResourcesResponse(claims={"u1": {"devices": [device]}})
    assert check_prepare(CLAIMS[:1], old)["u1"][0].share_id is None
    check_unprepare(CLAIMS, unprepared({"u1": {}, "u2": {}}))


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ({"u1": {"error": "bad"}, "u2": {}}, {"u2": ()}),
        ({"u1": {}, "u2": {}, "u3": {}}, {"u1": (), "u2": ()}),
        ({"u1": {}}, {"u1": ()}),
        ({}, {}),
    ],
)
def test_what_is_right_in_a_wrong_answer_is_kept(answers: dict[str, Any], kept: dict[str, Any]) -> None:
    with pytest.raises(PluginError) as caught:
        check_prepare(CLAIMS, prepared(answers))
    assert caught.value.devices == kept
