"""How Pods with claims end, restart and are deleted. Numbers are those of upstream's node tests."""

from __future__ import annotations

from kd_driver import skip_last, wrong_uid
from kd_kit import STAY, UNPREPARE, end, parallel, restarts_of, waiting
from kd_world import World


@parallel
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


@parallel
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


@parallel
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


@parallel
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


@parallel
def unprepare_blocks(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    driver.faults.block_unprepare.set()
    w.delete("p")
    assert driver.entered.wait(60)
    w.stays(lambda: w.find("p"), "it waits", STAY)
    w.note("blocked", "p")
    driver.faults.block_unprepare.clear()
    w.wait_gone("p")


@parallel
def a_pod_completes(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", command=["env"], restartPolicy="Never")
    w.wait_phase("p", "Succeeded")
    w.wait_calls(1, "unprepare")
    w.note("succeeded", "p")
    end(w, "p")


@parallel
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
    end(w, "p")


@parallel
def a_container_restarts(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c", command=["sh", "-c", "exit 1"])
    w.until(lambda: restarts_of(w, "p") >= 1, "the container was restarted")
    w.until(lambda: waiting(w, "p") == "CrashLoopBackOff", "it waits")
    w.wait_event("Back-off restarting")
    w.note("waiting", "p")
    end(w, "p")


@parallel
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


@parallel
def a_pod_is_deleted_while_prepare_fails(w: World) -> None:
    driver = w.driver()
    driver.faults.prepare = "never"
    w.claim("c")
    w.pod("p", "c")
    w.wait_event("never")
    w.delete("p")
    w.wait_gone("p")
    w.wait_calls(1, "unprepare")


@parallel
def a_pod_is_deleted_by_force(w: World) -> None:
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.delete("p", force=True)
    w.wait_gone("p")
    w.wait_calls(1, "unprepare", seconds=150)


@parallel
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
    end(w, "p2")


@parallel
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
    end(w, "p2")
