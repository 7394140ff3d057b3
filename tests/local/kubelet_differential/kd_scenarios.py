"""Scenarios between kubelet, plugin and API server; numbers are those of upstream's node tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kd_driver import every_request, no_devices, skip_all, skip_last, wrong_uid
from kd_world import World

Scenario = Callable[[World], None]
PARALLEL: Final[dict[str, Scenario]] = {}
"""They leave the kubelet alone and run at the same time."""
RESTARTS: Final[dict[str, Scenario]] = {}
"""They stop or start the kubelet and run one after the other."""

_STAY: Final = 4.0
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


def _parallel(scenario: Scenario) -> Scenario:
    PARALLEL[scenario.__name__.replace("_", "-")] = scenario
    return scenario


def _restarts(scenario: Scenario) -> Scenario:
    RESTARTS[scenario.__name__.replace("_", "-")] = scenario
    return scenario


def _end(w: World, *names: str) -> None:
    for name in names:
        w.delete(name)
    for name in names:
        w.wait_gone(name)


# --- Prepare


@_parallel
def a_pod_runs_and_ends(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def prepare_blocks(w: World) -> None:  # EN-6
    driver = w.driver()
    driver.faults.block_prepare.set()
    w.claim("c")
    w.pod("p", "c")
    assert driver.entered.wait(60)
    w.stays(lambda: w.find("p")["status"]["phase"] == "Pending", "Pending", _STAY)  # type: ignore[index]
    w.note("blocked", "p")
    driver.faults.block_prepare.clear()
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def prepare_fails_for_a_claim(w: World) -> None:  # EN-7
    driver = w.driver()
    driver.faults.prepare = "no such device"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("no such device")
    w.wait_calls(2, "prepare")
    w.note("failing", "p")
    driver.faults.prepare = ""
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def prepare_fails_as_a_call(w: World) -> None:
    driver = w.driver()
    driver.faults.prepare_rpc = "boom"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("boom")
    w.wait_calls(2, "prepare")
    w.note("failing", "p")
    _end(w, "p")


@_parallel
def prepare_answers_nothing(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = skip_all
    w.claim("c1")
    w.claim("c2")
    w.pod("p", "c1", "c2")
    w.wait_event("skipped")
    w.note("failing", "p")
    driver.answers.clear()
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def prepare_skips_one_of_two_claims(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = skip_last
    w.claim("c1")
    w.claim("c2")
    w.pod("p", "c1", "c2")
    w.wait_event("skipped")
    driver.answers.clear()
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def prepare_answers_for_a_strange_claim(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = wrong_uid
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("unknown claim UID")
    w.note("failing", "p")
    driver.answers.clear()
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def devices_without_requests(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = every_request
    w.claim("c", "d", count=2)
    w.pod("p", "c", use=[{"name": "c", "request": "r-d"}])
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def no_devices_at_all(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = no_devices
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def one_of_several_claims_fails(w: World) -> None:
    driver = w.driver()
    driver.faults.prepare_claims = {"c2": "c2 is bad"}
    for name in ("c1", "c2", "c3"):
        w.claim(name)
    w.pod("p", "c3", "c1", "c2")
    w.wait_event("c2 is bad")
    w.note("failing", "p")
    driver.faults.prepare_claims = {}
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def devices_that_the_runtime_does_not_know(w: World) -> None:
    driver = w.driver()
    driver.faults.cdi_ids = ["d.example.com/none=x"]
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("Failed")
    w.until(lambda: _waiting(w, "p") == "CreateContainerError", "the container cannot be made")
    w.note("failing", "p")
    _end(w, "p")


def _waiting(w: World, name: str) -> str:
    statuses = (w.find(name) or {}).get("status", {}).get("containerStatuses") or [{}]
    return str(((statuses[0].get("state") or {}).get("waiting") or {}).get("reason", ""))


@_parallel
def the_plugin_is_not_there(w: World) -> None:
    driver = w.driver(start=False)
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("is not registered")
    w.note("failing", "p")
    driver.start()
    w.wait_phase("p", "Running")
    driver.stop()
    w.delete("p")
    w.until(lambda: not _running(w, "p"), "the container has ended")
    w.stays(lambda: w.find("p"), "the Pod waits for the plugin", _STAY)
    w.note("waiting", "p")
    driver.start()
    w.wait_gone("p")


def _running(w: World, name: str) -> bool:
    statuses = (w.find(name) or {}).get("status", {}).get("containerStatuses") or []
    return any("running" in (each.get("state") or {}) for each in statuses)


@_parallel
def the_service_socket_is_gone(w: World) -> None:
    driver = w.driver()
    driver.stop_plugin()
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("Unavailable")
    w.note("failing", "p")
    driver.serve_plugin()
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def the_plugin_restarts_while_a_pod_runs(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    driver.restart()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    w.stays(lambda: _running(w, "p"), "it runs", 2.0)
    _end(w, "p")


@_parallel
def a_claim_is_shared(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p1", "c")
    w.wait_phase("p1", "Running")
    w.pod("p2", "c")
    w.wait_phase("p2", "Running")
    _end(w, "p1")
    w.stays(lambda: _running(w, "p2"), "the other runs", 2.0)
    _end(w, "p2")


@_parallel
def an_unused_claim_is_prepared(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", use=[])
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def init_containers_use_claims(w: World) -> None:
    w.driver()
    w.claim("c")
    claims = {"claims": [{"name": "c"}]}
    first = {"name": "first", "image": "busybox", "command": ["env"], "resources": claims}
    side = {
        "name": "side",
        "image": "busybox",
        "command": ["sleep", "10000"],
        "restartPolicy": "Always",
        "resources": claims,
    }
    w.pod("p", "c", initContainers=[first, side])
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


# --- Unprepare


@_parallel
def unprepare_fails_for_a_claim(w: World) -> None:  # EN-8, EN-11
    driver = w.driver()
    driver.faults.unprepare = "busy"
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(3, "unprepare")
    w.note("failing", "p")
    driver.faults.unprepare = ""
    w.wait_gone("p")


@_parallel
def unprepare_fails_as_a_call(w: World) -> None:
    driver = w.driver()
    driver.faults.unprepare_rpc = "boom"
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(3, "unprepare")
    w.note("failing", "p")
    driver.faults.unprepare_rpc = ""
    w.wait_gone("p")


@_parallel
def unprepare_skips_a_claim(w: World) -> None:
    driver = w.driver()
    driver.answers[UNPREPARE] = skip_last
    w.claim("c1")
    w.claim("c2")
    w.pod("p", "c1", "c2")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(3, "unprepare")
    w.note("failing", "p")
    driver.answers.clear()
    w.wait_gone("p")


@_parallel
def unprepare_answers_for_a_strange_claim(w: World) -> None:
    driver = w.driver()
    driver.answers[UNPREPARE] = wrong_uid
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(3, "unprepare")
    w.note("failing", "p")
    driver.answers.clear()
    w.wait_gone("p")


@_parallel
def unprepare_blocks(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    driver.faults.block_unprepare.set()
    w.delete("p")
    assert driver.entered.wait(60)
    w.stays(lambda: w.find("p"), "it waits", _STAY)
    w.note("blocked", "p")
    driver.faults.block_unprepare.clear()
    w.wait_gone("p")


@_parallel
def a_pod_completes(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", command=["env"], restartPolicy="Never")
    w.wait_phase("p", "Succeeded")
    w.wait_calls(1, "unprepare")
    w.note("succeeded", "p")
    _end(w, "p")


@_parallel
def a_pod_fails_and_its_claim_is_stuck(w: World) -> None:
    driver = w.driver()
    driver.faults.unprepare = "busy"
    w.claim("c")
    w.pod("p", "c", command=["exit", "3"], restartPolicy="Never")
    w.wait_calls(3, "unprepare")
    w.note("waiting", "p")
    driver.faults.unprepare = ""
    w.wait_phase("p", "Failed")
    w.note("failed", "p")
    _end(w, "p")


@_parallel
def a_container_restarts(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", command=["sh", "-c", "exit 1"])
    w.until(lambda: _restarts_of(w, "p") >= 1, "the container was restarted")
    w.until(lambda: _waiting(w, "p") == "CrashLoopBackOff", "it waits")
    w.wait_event("Back-off restarting")
    w.note("waiting", "p")
    _end(w, "p")


def _reported(w: World, name: str) -> bool:
    statuses = (w.find(name) or {}).get("status", {}).get("containerStatuses") or [{}]
    return bool(statuses[0].get("allocatedResourcesStatus"))


def _restarts_of(w: World, name: str) -> int:
    statuses = (w.find(name) or {}).get("status", {}).get("containerStatuses") or [{}]
    return int(statuses[0].get("restartCount", 0))


@_parallel
def a_pod_is_deleted_while_prepare_hangs(w: World) -> None:
    driver = w.driver()
    driver.faults.block_prepare.set()
    w.claim("c")
    w.pod("p", "c")
    assert driver.entered.wait(60)
    w.delete("p")
    w.stays(lambda: True, "", 2.0)
    w.note("deleted", "p")
    driver.faults.block_prepare.clear()
    w.wait_gone("p")
    w.wait_calls(1, "unprepare")


@_parallel
def a_pod_is_deleted_while_prepare_fails(w: World) -> None:
    driver = w.driver()
    driver.faults.prepare = "never"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("never")
    w.delete("p")
    w.wait_gone("p")
    w.wait_calls(1, "unprepare")


@_parallel
def a_pod_is_deleted_by_force(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p", force=True)
    w.wait_gone("p")
    w.wait_calls(1, "unprepare", seconds=150)


@_parallel
def an_old_claim_has_the_same_name(w: World) -> None:
    driver = w.driver()
    driver.faults.unprepare = "busy"
    w.claim("c")
    w.pod("p1", "c")
    w.wait_phase("p1", "Running")
    w.delete("p1", force=True)
    w.wait_gone("p1")
    w.client.delete("resource.k8s.io/v1", "resourceclaims", "c", w.namespace)
    w.until(
        lambda: w.client.find("resource.k8s.io/v1", "resourceclaims", "c", w.namespace) is None,
        "the claim is gone",
    )
    w.claim("c")
    w.pod("p2", "c")
    w.wait_event("different UID")
    w.note("failing", "p2")
    driver.faults.unprepare = ""
    w.wait_phase("p2", "Running")
    _end(w, "p2")


@_parallel
def a_claim_is_being_unprepared(w: World) -> None:
    driver = w.driver()
    driver.faults.unprepare = "busy"
    w.claim("c")
    w.pod("p1", "c")
    w.wait_phase("p1", "Running")
    w.delete("p1")
    w.wait_calls(1, "unprepare")
    w.pod("p2", "c")
    w.wait_event("is being unprepared")
    w.note("failing", "p2")
    driver.faults.unprepare = ""
    w.wait_gone("p1")
    w.wait_phase("p2", "Running")
    _end(w, "p2")


# --- several drivers


@_parallel
def two_drivers(w: World) -> None:  # EN-21
    w.driver("a")
    w.driver("b")
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_parallel
def one_of_two_plugins_fails_prepare(w: World) -> None:  # EN-23
    w.driver("a")
    bad = w.driver("b")
    bad.faults.prepare = "b is bad"
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_event("b is bad")
    w.wait_calls(1, "prepare", "a")
    w.until(lambda: _reported(w, "p"), "what the other has prepared is reported")
    w.note("failing", "p")
    bad.faults.prepare = ""
    w.wait_phase("p", "Running")
    _end(w, "p")


@_parallel
def one_of_two_plugins_fails_unprepare(w: World) -> None:  # EN-24
    w.driver("a")
    bad = w.driver("b")
    bad.faults.unprepare = "b is bad"
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(3, "unprepare", "b")
    w.wait_calls(1, "unprepare", "a")
    w.note("failing", "p")
    bad.faults.unprepare = ""
    w.wait_gone("p")


@_parallel
def several_claims_of_several_drivers(w: World) -> None:
    w.driver("a")
    w.driver("b")
    w.claim("c1", "a")
    w.claim("c2", "a", "b")
    w.claim("c3", "b")
    w.pod("p", "c2", "c3", "c1")
    w.wait_phase("p", "Running")
    _end(w, "p")


# --- slices


@_parallel
def slices_go_with_the_plugin(w: World) -> None:  # EN-28
    driver = w.driver(per_node=True)
    w.stays(lambda: w.slices() == 1, "the slice stays", 2.0)
    driver.stop()
    w.until(lambda: w.slices() == 0, "the slice is removed")


@_parallel
def a_service_that_never_comes_up(w: World) -> None:  # EN-31
    driver = w.driver(start=False, per_node=True)
    driver.endpoint.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    driver.serve_registration()
    w.until(driver.notified, "it is registered")
    w.until(lambda: w.slices() == 0, "the slice is removed")
    driver.stop_registration()


@_parallel
def registration_fails_first(w: World) -> None:
    driver = w.driver(start=False)
    driver.faults.get_info = "not yet"
    driver.start()
    w.until(lambda: len(driver.calls("GetInfo")) >= 2, "it is asked again")
    driver.faults.get_info = ""
    driver.faults.notify = "not yet"
    w.until(driver.notified, "it is told")
    driver.faults.notify = ""
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    _end(w, "p")


# --- kubelet


@_restarts
def a_pod_is_made_while_the_kubelet_is_down(w: World) -> None:  # EN-5
    w.driver()
    w.claim("c")
    w.node.kubelet.stop()
    w.pod("p", "c")
    w.wait_scheduled("p")
    w.node.kubelet.start()
    w.wait_phase("p", "Running")
    w.note("running", "p")
    _end(w, "p")


@_restarts
def prepare_fails_and_the_kubelet_restarts(w: World) -> None:  # EN-9
    driver = w.driver()
    driver.faults.prepare = "not now"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("not now")
    w.node.kubelet.restart()
    begin = len(driver.prepares())
    w.wait_calls(begin + 1, "prepare")
    driver.faults.prepare = ""
    w.wait_phase("p", "Running")
    _end(w, "p")


@_restarts
def unprepare_fails_and_the_kubelet_restarts(w: World) -> None:  # EN-10
    driver = w.driver()
    driver.faults.unprepare = "not now"
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p")
    w.wait_calls(1, "unprepare")
    w.node.kubelet.restart()
    begin = len(driver.unprepares())
    w.wait_calls(begin + 1, "unprepare")
    driver.faults.unprepare = ""
    w.wait_gone("p")


@_restarts
def a_pod_is_deleted_by_force_while_the_kubelet_is_down(w: World) -> None:  # EN-12
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.stop()
    w.delete("p", force=True)
    w.wait_gone("p")
    w.node.kubelet.start()
    w.wait_calls(1, "unprepare", seconds=150)


@_restarts
def a_pod_is_deleted_while_the_kubelet_is_down(w: World) -> None:  # EN-13
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.stop()
    w.delete("p")
    w.stays(lambda: w.find("p"), "nobody ends it", 2.0)
    w.node.kubelet.start()
    w.wait_gone("p")


@_restarts
def running_pods_outlive_the_kubelet(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.restart()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    w.stays(lambda: _running(w, "p"), "it runs", 3.0)
    w.note("after", "p")
    w.pod("p2", "c")
    w.wait_phase("p2", "Running")
    _end(w, "p", "p2")


@_restarts
def the_kubelet_restarts_during_prepare(w: World) -> None:  # EN-25
    w.driver("a")
    slow = w.driver("b")
    slow.faults.block_prepare.set()
    w.claim("c", "a", "b")
    w.pod("p", "c")
    assert slow.entered.wait(60)
    w.node.kubelet.restart()
    begin = len(slow.prepares())
    w.wait_calls(begin + 1, "prepare", "b")
    slow.faults.block_prepare.clear()
    w.wait_phase("p", "Running")
    _end(w, "p")


@_restarts
def the_kubelet_restarts_during_unprepare(w: World) -> None:  # EN-26
    w.driver("a")
    slow = w.driver("b")
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    slow.faults.block_unprepare.set()
    w.delete("p")
    assert slow.entered.wait(60)
    w.node.kubelet.restart()
    begin = len(slow.unprepares())
    w.wait_calls(begin + 1, "unprepare", "b")
    slow.faults.block_unprepare.clear()
    w.wait_gone("p")


@_restarts
def the_kubelet_is_killed_while_pods_run(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.kill()
    w.node.kubelet.start()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    _end(w, "p")


@_restarts
def slices_go_when_the_kubelet_starts(w: World) -> None:  # EN-27
    driver = w.driver(per_node=True)
    w.node.kubelet.restart()
    w.until(lambda: w.slices() == 0, "the slice is removed", 30.0)
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
