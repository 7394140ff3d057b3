"""Pods without claims: where they go and what is said of those that go nowhere."""

from __future__ import annotations

from scheduler_harness import NAMESPACE, bench

from clusters.embedded.scheduler.cycle import nodes_to_find
from clusters.embedded.scheduler.diagnosis import Diagnosis
from clusters.embedded.scheduler.framework.status import unresolvable, unschedulable


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
        condition = b.becomes("p", "no nodes available to schedule pods")
        assert condition["reason"] == "Unschedulable"
        event = b.events("FailedScheduling", "p")[0]
        assert (event["type"], event["action"]) == ("Warning", "Scheduling")
        assert event["note"] == condition["message"]
        b.node("n1")
        assert b.node_of("p") == "n1"


def test_reasons_are_counted_and_sorted_as_strings() -> None:
    with bench() as b:
        b.node("tainted", {"zone": "a"})
        b.node("other", {"zone": "b"})
        b.node("small", cpu="1")
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
        b.becomes(
            "second",
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
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


def test_counts_are_sorted_as_text_and_nodes_not_looked_at_count_too() -> None:
    diagnosis = Diagnosis(14, absent=unresolvable("not looked at"))
    for number in range(10):
        diagnosis.refuse(f"n{number}", unschedulable("Insufficient cpu", "Too many pods"))
    diagnosis.refuse("x", unschedulable("Insufficient cpu"))
    diagnosis.post_filter = "after."
    assert diagnosis.message == (
        "0/14 nodes are available: 10 Too many pods, 11 Insufficient cpu, 3 not looked at. after."
    )


def test_up_to_a_hundred_nodes_all_are_looked_at() -> None:
    # 50 % less a percent for every 125 nodes, at least 5 %, at least 100 nodes.
    assert [nodes_to_find(count, 0) for count in (1, 99, 100, 250, 1000, 6000)] == [1, 99, 100, 120, 420, 300]
    assert nodes_to_find(1000, 70) == 700


def test_finished_pods_hold_nothing() -> None:
    with bench() as b:
        b.node("n1", cpu="2", pods="1")
        b.pod("first", requests={"cpu": "2"})
        b.node_of("first")
        b.pod("second", requests={"cpu": "2"})
        b.refusal("second", "1 Insufficient cpu, 1 Too many pods.")
        b.http.patch(f"{NAMESPACE}/pods/first/status", {"status": {"phase": "Succeeded"}})
        assert b.node_of("second") == "n1"


def test_two_pods_cannot_have_the_same_host_port() -> None:
    with bench() as b:
        b.node("n1")
        ports = [{"containerPort": 80, "hostPort": 8080}]
        container = {"name": "a", "image": "probe:1", "ports": ports}
        for name in ("p1", "p2"):
            body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
            b.http.created(f"{NAMESPACE}/pods", body)
        b.until(lambda: b.condition("p1") and b.condition("p2"))
        refused = [name for name in ("p1", "p2") if b.condition(name)["status"] == "False"]
        assert len(refused) == 1
        b.refusal(
            refused[0],
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. ",
        )


def test_cordoned_nodes_and_wanted_nodes() -> None:
    with bench() as b:
        b.node("n1", unschedulable=True)
        b.node("n2")
        field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        b.pod("p", affinity=affinity)
        b.refusal("p", "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [NodeAffinity], ")
        b.http.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None, "taints": None}})
        assert b.node_of("p") == "n1"


def test_several_profiles_schedule_under_their_own_names() -> None:
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
    }
    with bench(text) as b:
        b.node("n1")
        b.pod("p", schedulerName="other")
        b.pod("stranger", schedulerName="nobody")
        b.node_of("p")
        assert b.events("Scheduled", "p")[0]["reportingController"] == "other"
        assert b.condition("stranger") == {}


def test_without_post_filter_plugins_nobody_is_preempted() -> None:
    profile = {"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    with bench(text) as b:
        b.node("n1", cpu="1")
        b.pod("p", requests={"cpu": "2"})
        b.becomes("p", "0/1 nodes are available: 1 Insufficient cpu.")
