from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from small_driver import CLAIM, NAME, SOON, SmallDriver, eventually

from clusters.embedded.kubelet.plugins import (
    ClaimReference,
    PluginError,
    PluginManager,
    PreparedDevice,
)
from node_api import services


def test_prepare_and_unprepare(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.extra_devices = {"share_id": "s"}
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    result = kubelet.prepare(NAME, [CLAIM])
    assert result.devices == {"u": (PreparedDevice(("r",), "p", "d", ("a.com/c=u",), "s"),)}
    assert (result.endpoint, result.service) == (str(driver.endpoint), "v1.DRAPlugin")
    kubelet.unprepare(NAME, [CLAIM])
    service, method, request = driver.calls[-1]
    assert (service, method) == ("v1.DRAPlugin", "NodeUnprepareResources")
    assert [(claim.namespace, claim.name, claim.uid) for claim in request.claims] == [("ns", "c", "u")]
    # 45 s for each call
    assert driver.deadlines[2:] == [pytest.approx(45, abs=0.5)] * 2


def test_the_first_usable_service_of_the_list_is_called_unless_forced(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.info["supported_versions"] = ["v3.DRAPlugin", services.DRA_V1BETA1, services.DRA_V1]
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    kubelet.prepare(NAME, [CLAIM])
    kubelet.prepare(NAME, [CLAIM], version=services.DRA_V1)
    assert [service for service, _, _ in driver.calls[2:]] == [services.DRA_V1BETA1, services.DRA_V1]
    with pytest.raises(ValueError, match=r"use v1\.DRAPlugin or v1beta1\.DRAPlugin"):
        kubelet.prepare(NAME, [CLAIM], version="v2")


def test_an_empty_endpoint_is_the_registration_socket(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.info["endpoint"] = ""
    driver.start()
    assert kubelet.wait_registered(NAME, SOON).endpoint == str(driver.registration_socket)
    with pytest.raises(
        PluginError, match=r"^NodePrepareResources: rpc error: code = Unimplemented desc = "
    ) as caught:
        kubelet.prepare(NAME, [CLAIM])
    assert (caught.value.reason, caught.value.code) == ("rpc", grpc.StatusCode.UNIMPLEMENTED)


def test_a_killed_plugin_stays_registered_and_calls_fail_at_once(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    eventually(lambda: kubelet.registrations()[0].connected, "connection")
    driver.stop(keep_files=True)
    eventually(lambda: not kubelet.registrations()[0].connected, "loss of the connection")
    assert kubelet.is_registered(NAME)
    with pytest.raises(PluginError) as caught:
        kubelet.prepare(NAME, [CLAIM])
    assert str(caught.value) == (
        "NodePrepareResources: rpc error: code = Unavailable desc = connection error: desc = "
        f'"transport: Error while dialing: dial unix {driver.endpoint}: connect: connection refused"'
    )
    # a successor replaces the stale sockets
    driver.start()
    eventually(lambda: len(driver.notified) == 2, "registration of the successor")
    kubelet.wait_registered(NAME, SOON)
    kubelet.prepare(NAME, [CLAIM])


def test_of_two_plugins_the_newer_is_called_while_it_is_connected(
    kubelet: PluginManager, driver: SmallDriver, root: Path
) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    newer = SmallDriver(root, socket="dra-2.sock", registration=f"{NAME}-2-reg.sock").start()
    try:
        eventually(lambda: newer.notified, "registration of the newer")
        eventually(lambda: all(found.connected for found in kubelet.registrations()), "connections")
        kubelet.prepare(NAME, [CLAIM])
        assert newer.methods()[-1] == "NodePrepareResources"
        assert kubelet.endpoint(NAME) == newer.endpoint
        newer.stop(keep_files=True)
        eventually(lambda: kubelet.endpoint(NAME) == driver.endpoint, "the older one as target")
        kubelet.prepare(NAME, [CLAIM])
        assert driver.methods()[-1] == "NodePrepareResources"
    finally:
        newer.stop()


def test_a_lost_connection_is_made_again_without_a_call(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    eventually(lambda: kubelet.registrations()[0].connected, "connection")
    served = driver._served.pop(0)
    served.close()
    eventually(lambda: not kubelet.registrations()[0].connected, "loss")
    driver.serve_plugin()
    eventually(lambda: kubelet.registrations()[0].connected, "connection again")
    assert [event.kind for event in kubelet.events.since() if event.path == str(driver.endpoint)] == [
        "connected",
        "disconnected",
        "connected",
    ]
    assert len(driver.notified) == 1


@pytest.mark.parametrize(
    ("setting", "text", "reason"),
    [
        ({"claim_error": "bad claim"}, "{} failed for ResourceClaim c: bad claim", "claim"),
        ({"rename": {"u": "foo-uid"}}, "{} returned result for unknown claim UID foo-uid", "unknown-claim"),
        ({"drop": {"u"}}, "{} skipped 1 ResourceClaims", "skipped"),
    ],
)
def test_wrong_answers_are_errors(
    kubelet: PluginManager, driver: SmallDriver, setting: dict[str, Any], text: str, reason: str
) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    for key, value in setting.items():
        setattr(driver, key, value)
    for call, method in (
        (kubelet.prepare, "NodePrepareResources"),
        (kubelet.unprepare, "NodeUnprepareResources"),
    ):
        with pytest.raises(PluginError) as caught:
            call(NAME, [CLAIM])
        assert (str(caught.value), caught.value.reason) == (text.format(method), reason)
    failed = [event.text for event in kubelet.events.since() if event.kind == "call-failed"]
    assert failed == [text.format("NodePrepareResources"), text.format("NodeUnprepareResources")]


def test_a_deadline_of_the_test_ends_the_call_and_the_plugin_sees_it(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    driver.wait.clear()
    driver.cancelled.clear()
    with pytest.raises(PluginError, match="code = DeadlineExceeded desc = context deadline exceeded"):
        kubelet.prepare(NAME, [CLAIM], timeout=0.2)
    assert driver.cancelled.wait(SOON)


def test_calls_run_concurrently(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    driver.wait.clear()
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(kubelet.prepare, NAME, [ClaimReference("ns", f"c{n}", f"u{n}")]) for n in range(4)
        ]
        eventually(lambda: driver.methods().count("NodePrepareResources") == 4, "four calls at once")
        driver.wait.set()
        assert sorted(next(iter(call.result().devices)) for call in calls) == ["u0", "u1", "u2", "u3"]


def test_a_restart_forgets_and_registers_again(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.start()
    before = kubelet.wait_registered(NAME, SOON)
    kubelet.restart()
    assert kubelet.wait_registered(NAME, SOON).since > before.since
    assert driver.notified == [(True, ""), (True, "")]
    assert [event.kind for event in kubelet.events.since() if not event.path] == [
        "started",
        "stopped",
        "started",
    ]


def test_a_restart_while_a_plugin_holds_an_answer_back(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    driver.wait.clear()
    driver.entered.clear()
    failures: list[PluginError] = []

    def call() -> None:
        try:
            kubelet.prepare(NAME, [CLAIM])
        except PluginError as problem:
            failures.append(problem)

    caller = threading.Thread(target=call)
    caller.start()
    assert driver.entered.wait(SOON)
    started = time.monotonic()
    kubelet.stop()
    assert time.monotonic() - started < SOON
    caller.join(SOON)
    assert [problem.code for problem in failures] == [grpc.StatusCode.CANCELLED]
    assert kubelet.registrations() == []
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith(("kubelet-", "register-"))
    ]
