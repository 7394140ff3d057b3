from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from small_driver import CLAIM, NAME, SOON, SmallDriver, eventually

from clusters.embedded.kubelet.plugins import (
    PluginError,
    PluginManager,
    Timeouts,
)
from node_api.registry import registration_sockets


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


def test_stopping_does_not_wait_for_a_handshake_with_a_dead_socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(root / "registry" / "a.sock"))
    kubelet = PluginManager("node", root / "registry", poll_interval=0.01)
    kubelet.start()
    eventually(lambda: "registering" in kinds(kubelet, root / "registry" / "a.sock"), "an attempt")
    started = time.monotonic()
    kubelet.stop()
    assert time.monotonic() - started < 8, "a handshake takes 10 s"


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
