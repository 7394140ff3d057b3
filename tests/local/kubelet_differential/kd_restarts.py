"""Kubelets that stop, start and are killed. Numbers are those of upstream's node tests."""

from __future__ import annotations

from kd_kit import end, restarts, running
from kd_world import World


@restarts
def a_pod_is_deleted_by_force_while_the_kubelet_is_down(w: World) -> None:  # EN-12
    w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.stop()
    w.delete("p", force=True)
    w.wait_gone("p")
    w.node.kubelet.start()
    # A kubelet looks for such claims once a minute.
    w.wait_calls(1, "unprepare", seconds=150)


@restarts
def a_pod_is_made_while_the_kubelet_is_down(w: World) -> None:  # EN-5
    w.driver()
    w.claim("c")
    w.node.kubelet.stop()
    w.pod("p", "c")
    w.wait_scheduled("p")
    w.node.kubelet.start()
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@restarts
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
    end(w, "p")


@restarts
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


@restarts
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


@restarts
def running_pods_outlive_the_kubelet(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.restart()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    w.stays(lambda: running(w, "p"), "it runs", 3.0)
    w.note("after", "p")
    w.pod("p2", "c")
    w.wait_phase("p2", "Running")
    end(w, "p", "p2")


@restarts
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
    end(w, "p")


@restarts
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


@restarts
def the_kubelet_is_killed_while_pods_run(w: World) -> None:
    driver = w.driver()
    w.claim("c")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.node.kubelet.kill()
    w.node.kubelet.start()
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
    end(w, "p")


@restarts
def slices_go_when_the_kubelet_starts(w: World) -> None:  # EN-27
    driver = w.driver(per_node=True)
    w.node.kubelet.restart()
    w.until(lambda: w.slices() == 0, "the slice is removed", 30.0)
    w.until(lambda: driver.notified() >= 2, "the driver is registered again")
