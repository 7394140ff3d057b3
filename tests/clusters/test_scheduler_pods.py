"""Pods without claims: where they go and what is said of those that go nowhere."""

from __future__ import annotations

from scheduler_harness import NAMESPACE, bench


def test_a_pod_is_bound_and_its_event_says_so() -> None:
    with bench() as b:
        b.node("n1")
        b.pod("p")
        assert b.node_of("p") == "n1"
        event = b.events("Scheduled", "p")[0]
        assert event["note"] == "Successfully assigned default/p to n1"
        assert (event["reportingController"], event["action"]) == ("default-scheduler", "Binding")
        assert event["type"] == "Normal"
        assert b.condition("p")["status"] == "True"


def test_without_nodes_a_pod_waits_with_upstreams_words_until_one_comes() -> None:
    with bench() as b:
        b.pod("p")
        condition = b.refusal("p")
        assert condition["reason"] == "Unschedulable"
        assert condition["message"] == "no nodes available to schedule pods"
        event = b.events("FailedScheduling", "p")[0]
        assert (event["type"], event["action"]) == ("Warning", "Scheduling")
        assert event["note"] == condition["message"]
        b.node("n1")
        assert b.node_of("p") == "n1"


def test_reasons_are_counted_and_sorted_as_strings() -> None:
    with bench() as b:
        b.node("small", cpu="1")
        b.node("other", {"zone": "b"})
        b.node("tainted", {"zone": "a"})
        b.http.patch("/api/v1/nodes/tainted", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        b.http.patch("/api/v1/nodes/small", {"metadata": {"labels": {"zone": "a"}}})
        b.pod("p", requests={"cpu": "2"}, nodeSelector={"zone": "a"})
        b.becomes(
            "p",
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node "
            "affinity/selector, 1 node(s) had untolerated taint(s). preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling.",
        )


def test_a_pod_that_would_fit_an_empty_node_is_told_that_nobody_yields() -> None:
    with bench() as b:
        b.node("n1", cpu="2")
        b.pod("first", requests={"cpu": "2"})
        b.node_of("first")
        b.pod("second", requests={"cpu": "1"})
        assert b.message("second") == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        )
        b.http.delete(f"{NAMESPACE}/pods/first", {"gracePeriodSeconds": 0})
        assert b.node_of("second") == "n1"


def test_pods_spread_over_equal_nodes() -> None:
    with bench() as b:
        for name in ("n1", "n2", "n3"):
            b.node(name)
        for number in range(3):
            b.pod(f"p{number}", requests={"cpu": "1"})
        assert {b.node_of(f"p{number}") for number in range(3)} == {"n1", "n2", "n3"}


def test_gated_pods_wait_in_silence() -> None:
    with bench() as b:
        b.node("n1")
        b.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        b.pod("free")
        b.node_of("free")
        # The API server itself says so in the condition; the scheduler adds nothing.
        assert b.condition("gated")["reason"] == "SchedulingGated"
        b.http.patch(f"{NAMESPACE}/pods/gated", {"spec": {"schedulingGates": None}})
        assert b.node_of("gated") == "n1"


def test_higher_priority_pushes_lower_priority_out() -> None:
    with bench() as b:
        b.node("n1", cpu="2")
        b.pod("victim", requests={"cpu": "2"}, terminationGracePeriodSeconds=0)
        b.node_of("victim")
        pod = b.pod("vip", requests={"cpu": "1"}, priorityClassName="system-cluster-critical")
        assert b.node_of("vip") == "n1"
        note = b.events("Preempted", "victim")[0]["note"]
        assert note == f"Preempted by pod {pod['metadata']['uid']} on node n1"
        assert b.http.get(f"{NAMESPACE}/pods/victim").code == 404
