from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from small_driver import NAME, SmallDriver

from clusters.embedded.kubelet.plugins import (
    Backoff,
    ClaimReference,
    PluginError,
    PluginManager,
    PreparedDevice,
    Timeouts,
)
from node_api import services
from node_api.registry import registration_sockets

CLAIM = ClaimReference("ns", "c", "u")
SOON = 10.0


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Poll: what is waited for happens in threads of gRPC and of the manager."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {SOON} s: {what}")


@pytest.fixture
def root() -> Iterator[Path]:
    # socket paths must be short
    made = Path(tempfile.mkdtemp(prefix="kp", dir="/tmp"))
    (made / "registry").mkdir()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def kubelet(root: Path) -> Iterator[PluginManager]:
    # quick retries; the times of a real kubelet are tested as data
    made = PluginManager(
        "node", root / "registry", poll_interval=0.01, backoff=Backoff(0.05, 2, 1), timeouts=Timeouts(dial=2)
    )
    with made:
        yield made


@pytest.fixture
def driver(root: Path) -> Iterator[SmallDriver]:
    made = SmallDriver(root)
    yield made
    made.stop()


def kinds(kubelet: PluginManager, path: Path) -> list[str]:
    return [event.kind for event in kubelet.events.since() if event.path == str(path)]


def test_a_driver_is_registered_and_told(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.start()
    found = kubelet.wait_registered(NAME, SOON)
    assert (found.driver, found.endpoint, found.socket) == (
        NAME,
        str(driver.endpoint),
        str(driver.registration_socket),
    )
    assert (found.service, found.health_service) == ("v1.DRAPlugin", "v1.DRAResourceHealth")
    assert driver.notified == [(True, "")]
    assert driver.methods() == ["GetInfo", "NotifyRegistrationStatus"]
    # GetInfo has 1 s, the notification 5 s
    assert driver.deadlines == [pytest.approx(1, abs=0.5), pytest.approx(5, abs=0.5)]
    assert kinds(kubelet, driver.registration_socket) == ["registering", "registered"]
    eventually(lambda: kubelet.registrations()[0].connected, "connection to the endpoint")


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


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"type": "Foo"}, "no handler registered for plugin type: Foo at socket {socket}"),
        (
            {"supported_versions": ["1.0.0"]},
            (
                "plugin validation failed with err: invalid supported gRPC versions of DRA driver plugin {name} at "
                'endpoint {endpoint}: none of services supported by the plugin (["1.0.0"]) are supported by the '
                'kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
        (
            {"supported_versions": []},
            (
                "plugin validation failed with err: invalid supported gRPC versions of DRA driver plugin {name} at "
                "endpoint {endpoint}: empty list of supported gRPC services (aka supported versions)"
            ),
        ),
    ],
)
def test_refused_plugins_are_told_why_and_tried_again(
    kubelet: PluginManager, driver: SmallDriver, changes: dict[str, Any], text: str
) -> None:
    good = dict(driver.info)
    driver.info.update(changes)
    driver.start()
    expected = "RegisterPlugin error -- " + text.format(
        socket=driver.registration_socket, name=NAME, endpoint=driver.endpoint
    )
    eventually(lambda: len(driver.notified) >= 2, "a second attempt")
    assert driver.notified[:2] == [(False, expected)] * 2
    assert kubelet.last_problem() == expected
    assert not kubelet.is_registered(NAME)
    driver.info.update(good)
    kubelet.wait_registered(NAME, SOON)
    assert kubelet.last_problem() == ""


def test_an_endpoint_cannot_be_taken_over(kubelet: PluginManager, driver: SmallDriver, root: Path) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    second = SmallDriver(root, registration="b-reg.sock")
    try:
        second.serve_registration()
        eventually(lambda: second.notified, "an answer")
        assert second.notified[0] == (
            False,
            (
                f"RegisterPlugin error -- plugin registration failed with err: endpoint {driver.endpoint} already "
                f"registered for DRA driver plugin {NAME}"
            ),
        )
        assert len(kubelet.registrations()) == 1
    finally:
        second.stop()


def test_without_an_answer_to_get_info_nobody_is_told(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.fail["GetInfo"] = (grpc.StatusCode.INTERNAL, "boom")
    driver.start()
    problem = eventually(kubelet.last_problem, "a problem")
    assert problem == (
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket "
        f"{driver.registration_socket}, err: rpc error: code = Internal desc = boom"
    )
    assert driver.notified == []
    driver.fail.clear()
    kubelet.wait_registered(NAME, SOON)


def test_a_silent_plugin_times_out_after_a_second(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.wait.clear()
    driver.start()
    problem = eventually(kubelet.last_problem, "a problem")
    assert problem.endswith("err: rpc error: code = DeadlineExceeded desc = context deadline exceeded")
    events = [event for event in kubelet.events.since() if event.path == str(driver.registration_socket)]
    assert 0.9 < events[1].time - events[0].time < 5


def test_a_failed_notification_takes_the_registration_back(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.fail["NotifyRegistrationStatus"] = (grpc.StatusCode.INTERNAL, "boom")
    driver.start()
    problem = eventually(kubelet.last_problem, "a problem")
    assert problem.startswith("RegisterPlugin error -- failed to send registration status at socket ")
    assert not kubelet.is_registered(NAME)
    driver.fail.clear()
    kubelet.wait_registered(NAME, SOON)


def test_the_plugin_can_be_called_before_it_is_notified(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.wait.clear()
    driver.info["endpoint"] = str(driver.endpoint)
    driver.start()
    # let GetInfo pass and hold the notification
    eventually(lambda: driver.methods()[:1] == ["GetInfo"], "GetInfo")
    driver.entered.clear()
    driver.wait.set()
    kubelet.wait_registered(NAME, SOON)
    assert driver.methods()[:2] == ["GetInfo", "NotifyRegistrationStatus"]


def test_removal_deregisters_and_re_creation_registers_again(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.start()
    first = kubelet.wait_registered(NAME, SOON)
    driver.registration_socket.unlink()
    eventually(lambda: not kubelet.registrations(), "deregistration")
    with pytest.raises(PluginError, match=f"^DRA driver {NAME} is not registered$") as caught:
        kubelet.prepare(NAME, [CLAIM])
    assert caught.value.reason == "not-registered"
    driver.stop()
    driver.start()
    assert kubelet.wait_registered(NAME, SOON).since > first.since
    # and without the removal in between being seen
    driver.registration_socket.unlink()
    driver.serve_registration()
    eventually(lambda: len(driver.notified) == 3, "a third registration")
    kubelet.wait_registered(NAME, SOON)
    assert kinds(kubelet, driver.registration_socket).count("deregistered") == 2


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
    assert time.monotonic() - started < 2
    caller.join(SOON)
    assert [problem.code for problem in failures] == [grpc.StatusCode.CANCELLED]
    assert kubelet.registrations() == []
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith(("kubelet-", "register-"))
    ]


def test_stopping_does_not_wait_for_a_handshake_with_a_dead_socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(root / "registry" / "a.sock"))
    kubelet = PluginManager("node", root / "registry", poll_interval=0.01)
    kubelet.start()
    eventually(lambda: "registering" in kinds(kubelet, root / "registry" / "a.sock"), "an attempt")
    started = time.monotonic()
    kubelet.stop()
    assert time.monotonic() - started < 2


def test_a_dead_socket_fails_after_the_dial_timeout(root: Path) -> None:
    path = root / "registry" / "a.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(path))
    with (
        PluginManager("node", root / "registry", poll_interval=0.01, timeouts=Timeouts(dial=0.1)) as kubelet,
        pytest.raises(TimeoutError, match=r"dial failed at socket .*a\.sock, err: failed to dial socket"),
    ):
        kubelet.wait_registered(NAME, 1.0)


def test_waiting_in_vain_says_what_is_missing(kubelet: PluginManager) -> None:
    with pytest.raises(TimeoutError, match=r"is not registered after 0\.05 s: no usable socket appeared in "):
        kubelet.wait_registered(NAME, 0.05)


def test_a_removed_registration_directory_may_come_back(
    kubelet: PluginManager, driver: SmallDriver, root: Path
) -> None:
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    driver.stop()
    shutil.rmtree(root / "registry")
    eventually(lambda: not kubelet.registrations(), "deregistration")
    driver.start()
    kubelet.wait_registered(NAME, SOON)


def test_a_second_driver_is_independent_of_a_silent_one(
    kubelet: PluginManager, driver: SmallDriver, root: Path
) -> None:
    driver.wait.clear()
    driver.start()
    other = SmallDriver(root, name="other.example.com").start()
    try:
        kubelet.wait_registered("other.example.com", SOON)
        assert not kubelet.is_registered(NAME)
    finally:
        other.stop()


def test_only_sockets_with_visible_names_count(root: Path) -> None:
    registry = root / "registry"
    (registry / "sub").mkdir()
    (registry / ".hidden").mkdir()
    names = ["a.sock", ".b.sock", "sub/c.sock", ".hidden/d.sock"]
    for name in names:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(os.fspath(registry / name))
    (registry / "file.sock").write_text("")
    (registry / "link.sock").symlink_to(registry / "a.sock")
    os.mkfifo(registry / "fifo.sock")
    found = registration_sockets(registry)
    assert sorted(found) == [str(registry / "a.sock"), str(registry / "sub" / "c.sock")]
    before = found[str(registry / "a.sock")]
    (registry / "a.sock").chmod(0o600)
    assert registration_sockets(registry)[str(registry / "a.sock")] == before
    (registry / "a.sock").unlink()
    with socket.socket(socket.AF_UNIX) as again:
        again.bind(os.fspath(registry / "a.sock"))
    assert registration_sockets(registry)[str(registry / "a.sock")] != before
    assert registration_sockets(root / "absent") == {}
