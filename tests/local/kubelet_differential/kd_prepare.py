"""What a Pod and its claims go through until it runs. Numbers are those of upstream's node tests."""

from __future__ import annotations

from kd_driver import every_request, no_devices, skip_all, skip_last, wrong_uid
from kd_kit import PREPARE, STAY, end, parallel, running, waiting
from kd_world import World


@parallel
def a_pod_runs_and_ends(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@parallel
def prepare_blocks(w: World) -> None:  # EN-6
    driver = w.driver()
    driver.faults.block_prepare.set()
    w.claim("c")
    w.pod("p", "c")
    assert driver.entered.wait(60)
    w.stays(lambda: w.find("p")["status"]["phase"] == "Pending", "Pending", STAY)  # type: ignore[index]
    w.note("blocked", "p")
    driver.faults.block_prepare.clear()
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@parallel
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
    end(w, "p")


@parallel
def prepare_fails_as_a_call(w: World) -> None:
    driver = w.driver()
    driver.faults.prepare_rpc = "boom"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("boom")
    w.wait_calls(2, "prepare")
    w.note("failing", "p")
    end(w, "p")


@parallel
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
    end(w, "p")


@parallel
def prepare_skips_one_of_two_claims(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = skip_last
    w.claim("c1")
    w.claim("c2")
    w.pod("p", "c1", "c2")
    w.wait_event("skipped")
    driver.answers.clear()
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
def prepare_answers_for_a_strange_claim(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = wrong_uid
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("unknown claim UID")
    w.note("failing", "p")
    driver.answers.clear()
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
def devices_without_requests(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = every_request
    w.claim("c", "d", count=2)
    w.pod("p", "c", use=[{"name": "c", "request": "r-d"}])
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@parallel
def no_devices_at_all(w: World) -> None:
    driver = w.driver()
    driver.answers[PREPARE] = no_devices
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@parallel
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
    end(w, "p")


@parallel
def devices_that_the_runtime_does_not_know(w: World) -> None:
    driver = w.driver()
    driver.faults.cdi_ids = ["d.example.com/none=x"]
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("Failed")
    w.until(lambda: waiting(w, "p") == "CreateContainerError", "the container cannot be made")
    w.note("failing", "p")
    end(w, "p")


@parallel
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
    w.until(lambda: not running(w, "p"), "the container has ended")
    w.stays(lambda: w.find("p"), "the Pod waits for the plugin", STAY)
    w.note("waiting", "p")
    driver.start()
    w.wait_gone("p")


@parallel
def the_service_socket_is_gone(w: World) -> None:
    driver = w.driver()
    driver.stop_plugin()
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("Unavailable")
    w.note("failing", "p")
    driver.serve_plugin()
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
def the_plugin_restarts_while_a_pod_runs(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    driver.restart()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    w.stays(lambda: running(w, "p"), "it runs", 2.0)
    end(w, "p")


@parallel
def a_claim_is_shared(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p1", "c")
    w.wait_phase("p1", "Running")
    w.pod("p2", "c")
    w.wait_phase("p2", "Running")
    end(w, "p1")
    w.stays(lambda: running(w, "p2"), "the other runs", 2.0)
    end(w, "p2")


@parallel
def an_unused_claim_is_prepared(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", use=[])
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
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
    end(w, "p")
