"""Several drivers on a node, their registration and their slices. Numbers are those of upstream's node tests."""

from __future__ import annotations

from kd_kit import end, parallel, reported
from kd_world import World


@parallel
def two_drivers(w: World) -> None:  # EN-21
    w.driver("a")
    w.driver("b")
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_phase("p", "Running")
    w.note("running", "p")
    end(w, "p")


@parallel
def one_of_two_plugins_fails_prepare(w: World) -> None:  # EN-23
    w.driver("a")
    bad = w.driver("b")
    bad.faults.prepare = "b is bad"
    w.claim("c", "a", "b")
    w.pod("p", "c")
    w.wait_event("b is bad")
    w.wait_calls(1, "prepare", "a")
    w.until(lambda: reported(w, "p"), "what the other has prepared is reported")
    w.note("failing", "p")
    bad.faults.prepare = ""
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
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


@parallel
def several_claims_of_several_drivers(w: World) -> None:
    w.driver("a")
    w.driver("b")
    w.claim("c1", "a")
    w.claim("c2", "a", "b")
    w.claim("c3", "b")
    w.pod("p", "c2", "c3", "c1")
    w.wait_phase("p", "Running")
    end(w, "p")


@parallel
def slices_go_with_the_plugin(w: World) -> None:  # EN-28
    driver = w.driver(per_node=True)
    w.stays(lambda: w.slices() == 1, "the slice stays", 2.0)
    driver.stop()
    w.until(lambda: w.slices() == 0, "the slice is removed")


@parallel
def a_service_that_never_comes_up(w: World) -> None:  # EN-31
    driver = w.driver(start=False, per_node=True)
    driver.endpoint.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    driver.serve_registration()
    w.until(driver.notified, "it is registered")
    w.until(lambda: w.slices() == 0, "the slice is removed")
    driver.stop_registration()


@parallel
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
    end(w, "p")
