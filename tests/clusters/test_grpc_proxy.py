from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from small_driver import CLAIM, NAME, SOON, SmallDriver, eventually

from clusters.embedded.kubelet.plugins import ClaimReference, PluginError, PluginManager
from clusters.proxies.grpc_proxy import Fault, PluginProxy
from node_api import services, sockets
from node_api.gen import health_v1_pb2, registration_pb2

PREPARE = services.NODE_PREPARE_RESOURCES
UNPREPARE = services.NODE_UNPREPARE_RESOURCES


@pytest.fixture
def registry(root: Path, proxy: PluginProxy) -> Path:
    """The kubelet looks at what the proxy mirrors."""
    return root / "kubelet"


def test_registration_and_calls_pass_and_are_recorded(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver, root: Path
) -> None:
    assert registered.endpoint(NAME) == root / "px" / "1.sock"
    result = registered.prepare(NAME, [CLAIM])
    assert result.devices["u"][0].cdi_device_ids == ("a.com/c=u",)
    registered.unprepare(NAME, [CLAIM])
    recorded = [(call.service, call.method, call.code) for call in proxy.calls()]
    assert recorded == [
        ("pluginregistration.Registration", "GetInfo", grpc.StatusCode.OK),
        ("pluginregistration.Registration", "NotifyRegistrationStatus", grpc.StatusCode.OK),
        ("v1.DRAPlugin", PREPARE, grpc.StatusCode.OK),
        ("v1.DRAPlugin", UNPREPARE, grpc.StatusCode.OK),
    ]
    info, _, prepare, _ = proxy.calls()
    assert (info.socket, prepare.socket) == (str(driver.registration_socket), str(driver.endpoint))
    # the record has what the driver said, not what the kubelet got
    assert info.response_message.endpoint == str(driver.endpoint)
    assert prepare.request_message.claims[0].uid == "u"
    assert prepare.response_message.claims["u"].devices[0].device_name == "d"
    assert prepare.request == driver.calls[2][2].SerializeToString()
    assert prepare.timeout == pytest.approx(45, abs=1)
    assert driver.deadlines[2] == pytest.approx(45, abs=1)
    assert 0 < prepare.duration < SOON
    assert str(prepare).partition(" in ")[0].partition(" ")[2] == (
        f'v1.DRAPlugin/{PREPARE} {{claims {{ namespace: "ns" uid: "u" name: "c" }}}} -> OK '
        '{claims { key: "u" value { devices { request_names: "r" pool_name: "p" device_name: "d" '
        'cdi_device_ids: "a.com/c=u" } } }}'
    )


def test_calls_are_found_by_time_and_method(registered: PluginManager, proxy: PluginProxy) -> None:
    mark = time.monotonic()
    registered.prepare(NAME, [CLAIM])
    registered.unprepare(NAME, [CLAIM])
    assert [call.method for call in proxy.calls(since=mark)] == [PREPARE, UNPREPARE]
    assert [call.method for call in proxy.calls(since=mark, method=UNPREPARE)] == [UNPREPARE]
    (call,) = proxy.wait_calls(PREPARE, since=mark, timeout=SOON)
    assert call.code is grpc.StatusCode.OK
    with pytest.raises(TimeoutError, match="1 of 2 expected calls"):
        proxy.wait_calls(PREPARE, count=2, since=mark, timeout=0.05)


def test_errors_of_the_driver_pass_unchanged(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    driver.fail[PREPARE] = (grpc.StatusCode.RESOURCE_EXHAUSTED, "no more")
    with pytest.raises(
        PluginError, match=r"^NodePrepareResources: rpc error: code = ResourceExhausted desc = no more$"
    ):
        registered.prepare(NAME, [CLAIM])
    call = proxy.calls()[-1]
    assert (call.code, call.details, call.responses) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "no more", ())


def test_unknown_services_and_undecodable_bytes_pass(registered: PluginManager, proxy: PluginProxy) -> None:
    with sockets.channel(registered.endpoint(NAME)) as channel:
        method: Any = channel.unary_unary("/other.Service/Do", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            method(b"\xff\xff", timeout=SOON)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    call = proxy.calls()[-1]
    assert (call.service, call.method, call.request) == ("other.Service", "Do", b"\xff\xff")
    assert call.request_message is None
    assert "{ffff}" in str(call)


def test_unknown_fields_of_get_info_survive_the_rewriting(registered: PluginManager, root: Path) -> None:
    with sockets.channel(root / "kubelet" / f"{NAME}-reg.sock") as channel:
        method: Any = channel.unary_unary(services.full_method(services.REGISTRATION, "GetInfo"), None, None)
        data = method(b"", timeout=SOON)
    info = registration_pb2.PluginInfo.FromString(data)
    assert (info.endpoint, info.name) == (str(root / "px" / "1.sock"), NAME)


def test_an_empty_endpoint_stays_empty(kubelet: PluginManager, driver: SmallDriver, root: Path) -> None:
    driver.info["endpoint"] = ""
    driver.start()
    assert kubelet.wait_registered(NAME, SOON).endpoint == str(root / "kubelet" / f"{NAME}-reg.sock")


def test_an_unusable_endpoint_reaches_the_kubelet(
    kubelet: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    driver.info["endpoint"] = "/" + "x" * 200
    driver.start()
    problem = eventually(kubelet.last_problem, "a refusal")
    assert "has 201 bytes" in problem


def test_refusals_reach_the_driver(kubelet: PluginManager, driver: SmallDriver) -> None:
    driver.info["type"] = "Foo"
    driver.start()
    eventually(lambda: driver.notified, "a notification")
    assert driver.notified[0][1].startswith(
        "RegisterPlugin error -- no handler registered for plugin type: Foo"
    )


def test_streams_pass_message_by_message_until_cancelled(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    driver.wait.clear()
    driver.cancelled.clear()
    with sockets.channel(registered.endpoint(NAME)) as channel:
        method = channel.unary_stream(
            services.full_method(services.HEALTH_V1, "NodeWatchResources"),
            request_serializer=health_v1_pb2.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=health_v1_pb2.NodeWatchResourcesResponse.FromString,
        )
        stream = method(health_v1_pb2.NodeWatchResourcesRequest(), timeout=60)
        names = [next(stream).devices[0].device.device_name for _ in range(3)]
        assert names == ["d0", "d1", "d2"]
        running = proxy.calls()[-1]
        assert running.code is None
        assert "running" in str(running)
        assert "(last of 3)" in str(running)
        stream.cancel()
    assert driver.cancelled.wait(SOON)
    (call,) = proxy.wait_calls("NodeWatchResources", timeout=SOON)
    assert call.code is grpc.StatusCode.CANCELLED
    assert len(call.responses) == 3


def test_a_deadline_of_the_kubelet_reaches_the_driver(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    driver.wait.clear()
    driver.cancelled.clear()
    with pytest.raises(PluginError, match="code = DeadlineExceeded"):
        registered.prepare(NAME, [CLAIM], timeout=0.3)
    assert driver.deadlines[-1] == pytest.approx(0.3, abs=0.2)
    assert driver.cancelled.wait(SOON)
    (call,) = proxy.wait_calls(PREPARE, timeout=SOON)
    assert call.code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_calls_run_concurrently(registered: PluginManager, driver: SmallDriver) -> None:
    driver.wait.clear()
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(registered.prepare, NAME, [ClaimReference("ns", f"c{n}", f"u{n}")]) for n in range(8)
        ]
        eventually(lambda: driver.methods().count(PREPARE) == 8, "eight calls at once")
        driver.wait.set()
        assert sorted(next(iter(call.result().devices)) for call in calls) == [f"u{n}" for n in range(8)]


def test_an_injected_error_does_not_reach_the_driver_and_hits_once(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    fault = proxy.inject(Fault(PREPARE, "error", code=grpc.StatusCode.ABORTED, details="no"))
    with pytest.raises(PluginError, match="code = Aborted desc = no"):
        registered.prepare(NAME, [CLAIM])
    assert PREPARE not in driver.methods()
    assert fault.hits == 1
    registered.prepare(NAME, [CLAIM])
    first, second = proxy.calls(method=PREPARE)
    assert (first.code, first.faults) == (grpc.StatusCode.ABORTED, ("error",))
    assert str(first).endswith("[error]")
    assert (second.code, second.faults) == (grpc.StatusCode.OK, ())


def test_faults_are_for_one_service_and_method(registered: PluginManager, proxy: PluginProxy) -> None:
    with proxy.inject(Fault(PREPARE, "error", service=services.DRA_V1BETA1, times=None)) as fault:
        registered.prepare(NAME, [CLAIM])
        registered.unprepare(NAME, [CLAIM], version=services.DRA_V1BETA1)
        assert fault.hits == 0
        for _ in range(2):
            with pytest.raises(PluginError, match="injected by the proxy"):
                registered.prepare(NAME, [CLAIM], version=services.DRA_V1BETA1)
        assert fault.hits == 2
    registered.prepare(NAME, [CLAIM], version=services.DRA_V1BETA1)


def test_a_delay_is_before_forwarding_and_part_of_the_deadline(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    proxy.inject(Fault(PREPARE, "delay", seconds=0.2))
    result = registered.prepare(NAME, [CLAIM], timeout=20)
    assert result.seconds >= 0.2
    assert driver.deadlines[-1] == pytest.approx(19.8, abs=0.15)


@pytest.mark.parametrize(("action", "forwarded"), [("cut", False), ("drop", True)])
def test_lost_calls_and_lost_answers(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver, action: Any, forwarded: bool
) -> None:
    proxy.inject(Fault(PREPARE, action))
    with pytest.raises(PluginError, match="code = Unavailable desc = Socket closed") as caught:
        registered.prepare(NAME, [CLAIM])
    assert caught.value.code is grpc.StatusCode.UNAVAILABLE
    assert (PREPARE in driver.methods()) == forwarded
    assert len(proxy.calls()[-1].responses) == forwarded
    registered.prepare(NAME, [CLAIM])


@pytest.mark.parametrize(("action", "reached"), [("hold", False), ("hold-answer", True)])
def test_held_calls_wait_for_their_release(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver, action: Any, reached: bool
) -> None:
    fault = proxy.inject(Fault(PREPARE, action))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(registered.prepare, NAME, [CLAIM])
        fault.wait_hit(SOON)
        if reached:
            eventually(lambda: proxy.calls(method=PREPARE)[0].responses, "the answer of the driver")
        # others are not held
        registered.unprepare(NAME, [CLAIM])
        assert (PREPARE in driver.methods()) == reached
        assert not held.done()
        fault.release()
        assert held.result(SOON).devices
    with pytest.raises(TimeoutError, match="hit 1 of 2 calls"):
        fault.wait_hit(0.01, count=2)


def test_a_held_call_whose_kubelet_gives_up_never_reaches_the_driver(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver
) -> None:
    fault = proxy.inject(Fault(PREPARE, "hold"))
    with pytest.raises(PluginError, match="DeadlineExceeded"):
        registered.prepare(NAME, [CLAIM], timeout=0.2)
    proxy.wait_calls(PREPARE, timeout=SOON)
    fault.release()
    registered.unprepare(NAME, [CLAIM])
    assert PREPARE not in driver.methods()


def test_faults_hit_registration_too(kubelet: PluginManager, proxy: PluginProxy, driver: SmallDriver) -> None:
    fault = proxy.inject(Fault("GetInfo", "error", times=2))
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    assert fault.hits == 2
    assert driver.methods() == ["GetInfo", "NotifyRegistrationStatus"]


def test_removal_and_re_creation_are_mirrored(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver, root: Path
) -> None:
    driver.stop()
    eventually(lambda: not registered.registrations(), "deregistration")
    assert list((root / "kubelet").iterdir()) == []
    eventually(lambda: list((root / "px").iterdir()) == [], "removal of the service mirror")
    driver.start()
    registered.wait_registered(NAME, SOON)
    registered.prepare(NAME, [CLAIM])
    # made anew at once
    driver.registration_socket.unlink()
    driver.serve_registration()
    eventually(lambda: len(driver.notified) == 3, "a third registration")
    registered.wait_registered(NAME, SOON)
    registered.prepare(NAME, [CLAIM])


def test_a_killed_driver_looks_dead_to_the_kubelet(
    registered: PluginManager, driver: SmallDriver, root: Path
) -> None:
    eventually(lambda: registered.registrations()[0].connected, "connection")
    driver.stop(keep_files=True)
    eventually(lambda: not registered.registrations()[0].connected, "loss of the connection")
    with pytest.raises(PluginError, match="connect: connection refused"):
        registered.prepare(NAME, [CLAIM])
    # the service comes back without a new registration
    driver.serve_plugin()
    eventually(lambda: registered.registrations()[0].connected, "connection again")
    registered.prepare(NAME, [CLAIM])
    assert len(driver.notified) == 1


def test_a_plugin_registered_before_its_service_is_up_cannot_be_called(
    kubelet: PluginManager, driver: SmallDriver
) -> None:
    driver.serve_registration()
    kubelet.wait_registered(NAME, SOON)
    with pytest.raises(PluginError, match="connect: no such file or directory"):
        kubelet.prepare(NAME, [CLAIM])
    driver.serve_plugin()
    eventually(lambda: kubelet.registrations()[0].connected, "connection")
    kubelet.prepare(NAME, [CLAIM])


def test_two_plugins_of_a_driver_have_their_own_mirrors(
    registered: PluginManager, proxy: PluginProxy, driver: SmallDriver, root: Path
) -> None:
    newer = SmallDriver(root, socket="dra-2.sock", registration=f"{NAME}-2-reg.sock").start()
    try:
        eventually(lambda: newer.notified, "registration of the newer")
        eventually(lambda: all(found.connected for found in registered.registrations()), "connections")
        registered.prepare(NAME, [CLAIM])
        assert proxy.calls()[-1].socket == str(newer.endpoint)
        newer.stop(keep_files=True)
        eventually(lambda: registered.endpoint(NAME) == root / "px" / "1.sock", "the older one as target")
        registered.prepare(NAME, [CLAIM])
        assert proxy.calls()[-1].socket == str(driver.endpoint)
    finally:
        newer.stop()


def test_equal_endpoints_stay_equal_for_the_kubelet(
    registered: PluginManager, driver: SmallDriver, root: Path
) -> None:
    second = SmallDriver(root, registration="b-reg.sock")
    try:
        second.serve_registration()
        eventually(lambda: second.notified, "an answer")
        assert "already registered for DRA driver plugin" in second.notified[0][1]
    finally:
        second.stop()


def test_a_kubelet_restart_registers_again_through_the_proxy(
    registered: PluginManager, driver: SmallDriver
) -> None:
    registered.restart()
    registered.wait_registered(NAME, SOON)
    registered.prepare(NAME, [CLAIM])
    assert len(driver.notified) == 2


def test_stopping_ends_held_calls_and_removes_all_sockets(
    registered: PluginManager, proxy: PluginProxy, root: Path
) -> None:
    fault = proxy.inject(Fault(PREPARE, "hold"))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(registered.prepare, NAME, [CLAIM])
        fault.wait_hit(SOON)
        started = time.monotonic()
        proxy.stop()
        assert time.monotonic() - started < SOON
        with pytest.raises(PluginError):
            held.result(SOON)
    assert list((root / "kubelet").iterdir()) == []
    assert list((root / "px").iterdir()) == []


def test_long_names_get_a_short_mirror(root: Path) -> None:
    kubelet_dir = root / ("k" * (sockets.MAX_PATH_BYTES - len(os.fspath(root)) - 25))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(root / "registry" / ("n" * 40)))
        left.listen()
        with PluginProxy(root / "registry", kubelet_dir, root / "px", poll_interval=0.01) as proxy:
            (mirror,) = eventually(
                lambda: [path for path in kubelet_dir.iterdir() if path.name[0] != "."], "a mirror"
            )
            # 8 hexadecimal digits and "-reg.sock"
            assert len(mirror.name) == 17
            assert proxy.problems == {}


def test_what_cannot_be_mirrored_is_told(root: Path) -> None:
    kubelet_dir = root / ("k" * 100)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(root / "registry" / "a.sock"))
    with PluginProxy(root / "registry", kubelet_dir, root / "px", poll_interval=0.01) as proxy:
        problem = eventually(lambda: proxy.problems.get(str(root / "registry" / "a.sock")), "a problem")
    assert "a Unix socket allows 107" in problem
