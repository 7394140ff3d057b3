"""Which pools a node has, and in which order their devices are tried."""

from __future__ import annotations

import pytest
from allocator_objects import NODE, allocate, claim, device, every, exact, make, picked, resource_slice

from allocator import AllocationError, NodeError


def test_pools_go_by_driver_and_name_slices_by_name_and_devices_as_listed() -> None:
    slices = [
        resource_slice("a", [device("d1")], driver="z.example.com", pool="a"),
        resource_slice("n", [device("d3"), device("d2")], pool="b", count=2),
        resource_slice("m", [device("d9")], pool="b", count=2),
        resource_slice("x", [device("d0")], pool="B"),
    ]
    assert picked(allocate(slices, claim(exact(count=5)))) == [
        ["r: B/d0", "r: b/d9", "r: b/d3", "r: b/d2", "r: a/d1"]
    ]


def test_pools_with_binding_conditions_come_last() -> None:
    bound = device("d", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    slices = [
        resource_slice("a", [device("p"), bound], pool="a"),
        resource_slice("b", [device("d")], pool="b"),
    ]
    assert picked(allocate(slices, claim(exact(count=3)))) == [["r: b/d", "r: a/p", "r: a/d"]]


def test_devices_with_binding_conditions_are_out_of_reach_without_the_gate() -> None:
    bound = device("d", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    gates = {"DRADeviceBindingConditions": False}
    slices = [resource_slice("a", [bound, device("e")])]
    assert picked(allocate(slices, claim(exact()), gates=gates)) == [["r: pool/e"]]


@pytest.mark.parametrize(
    ("where", "reached"),
    [
        ({"allNodes": True}, True),
        ({"nodeName": "worker"}, True),
        ({"nodeName": "other"}, False),
        ({"nodeSelector": [("zone", "In", ["east", "west"])]}, True),
        ({"nodeSelector": [("zone", "In", ["west"])]}, False),
        ({"nodeSelector": [("zone", "NotIn", ["east"])]}, False),
        ({"nodeSelector": [("colour", "NotIn", ["red"])]}, True),
        ({"nodeSelector": [("zone", "Exists", []), ("rack", "Gt", ["6"])]}, True),
        ({"nodeSelector": [("rack", "Gt", ["7"])]}, False),
        ({"nodeSelector": [("rack", "Lt", ["8"])]}, True),
        ({"nodeSelector": [("zone", "Lt", ["8"])]}, False),
        ({"nodeSelector": [("colour", "DoesNotExist", [])]}, True),
        ({}, False),
    ],
)
@pytest.mark.parametrize("per_device", [False, True])
def test_devices_are_for_the_nodes_that_the_slice_or_the_device_selects(
    where: dict[str, object], reached: bool, per_device: bool
) -> None:
    if "nodeSelector" in where:
        where = {"nodeSelector": selector(where["nodeSelector"])}
    if per_device:
        slices = [resource_slice("a", [device("d", **where)], perDeviceNodeSelection=True)]
    else:
        slices = [resource_slice("a", [device("d")], **(where or {"allNodes": False}))]
    assert bool(allocate(slices, claim(exact()))) is reached


def test_a_selector_can_name_the_node() -> None:
    def reached(operator: str) -> bool:
        fields = [{"key": "metadata.name", "operator": operator, "values": ["worker"]}]
        where = {"nodeSelectorTerms": [{"matchFields": fields}]}
        return bool(allocate([resource_slice("a", [device("d")], nodeSelector=where)], claim(exact())))

    assert reached("In")
    assert not reached("NotIn")


def test_a_selector_that_cannot_be_read_ends_the_attempt() -> None:
    slices = [resource_slice("a", [device("d")], nodeSelector=selector([("rack", "Gt", ["seven"])]))]
    with pytest.raises(AllocationError) as caught:
        allocate(slices, claim(exact()))
    assert caught.value.scope == "pod"
    assert str(caught.value) == (
        "gather pool information: failed to perform node selection for slice a: failed to parse node selector"
        " &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:"
        "[]NodeSelectorRequirement{NodeSelectorRequirement{Key:rack,Operator:Gt,Values:[seven],},},"
        "MatchFields:[]NodeSelectorRequirement{},},},}: nodeSelectorTerms[0].matchExpressions[0].values[0]:"
        " Invalid value: \"seven\": for 'Gt', 'Lt' operators, the value must be an integer"
    )


def test_a_pool_needs_all_slices_of_its_newest_generation() -> None:
    old = resource_slice("old", [device("d")], generation=1, count=1)
    new = resource_slice("new", [device("e")], generation=2, count=2)
    rest = resource_slice("rest", [device("f")], generation=2, count=2, nodeName="other")
    assert allocate([old, new], claim(exact())) == []
    assert picked(allocate([old, new, rest], claim(exact()))) == [["r: pool/e"]]


def test_an_incomplete_pool_stops_requests_for_all_devices_only() -> None:
    whole = resource_slice("whole", [device("d")], pool="whole")
    part = resource_slice("part", [device("e")], pool="part", driver="nic.example.com", count=2)
    assert picked(allocate([whole, part], claim(exact()))) == [["r: whole/d"]]
    with pytest.raises(AllocationError) as caught:
        allocate([whole, part], claim(every()))
    assert str(caught.value) == (
        "claim ns/c, request r: asks for all devices, but resource pool nic.example.com/part is currently being updated"
    )


def test_a_pool_that_is_being_replaced_elsewhere_is_gone_unless_it_is_complete_here() -> None:
    newer = resource_slice("n4", [device("x")], generation=2, nodeName="other")
    stale = resource_slice("n3", [device("d")], generation=1, count=2, nodeName="worker")
    complete = resource_slice("n3", [device("d")], generation=1, count=1, nodeName="worker")
    other = resource_slice("o", [device("o")], pool="other")
    # Gone, not incomplete: all devices can be had.
    assert picked(allocate([newer, stale, other], claim(every()))) == [["r: other/o"]]
    assert picked(allocate([newer, complete], claim(exact()))) == [["r: pool/d"]]


def test_a_device_name_twice_makes_the_pool_invalid_for_nodes_that_see_both() -> None:
    slices = [
        resource_slice("a", [device("d")], count=3),
        resource_slice("b", [device("d")], count=3),
        resource_slice("c", [device("d")], count=3, nodeName="other"),
        resource_slice("e", [device("e")], pool="zz"),
    ]
    assert picked(allocate(slices, claim(exact()))) == [["r: zz/e"]]
    with pytest.raises(NodeError) as caught:
        allocate(slices, claim(exact(count=2)))
    assert (caught.value.scope, str(caught.value)) == ("node", "invalid resource pools were encountered")
    assert caught.value.invalid_pools == 1
    with pytest.raises(AllocationError) as fatal:
        allocate(slices, claim(every()))
    assert fatal.value.scope == "pod"
    assert str(fatal.value) == (
        "claim ns/c, request r: asks for all devices, but resource pool gpu.example.com/pool is currently invalid"
    )
    spread = [slices[0], resource_slice("b", [device("x")], count=3), slices[2]]
    assert picked(allocate(spread, claim(exact(count=2)))) == [["r: pool/d", "r: pool/x"]]


def test_slices_for_single_devices_are_left_out_without_partitionable_devices() -> None:
    slices = [
        resource_slice("a", [device("d")], count=2),
        resource_slice("b", [device("e", allNodes=True)], count=2, perDeviceNodeSelection=True),
    ]
    assert picked(allocate(slices, claim(every()))) == [["r: pool/d", "r: pool/e"]]
    # They still count as slices of the pool.
    assert picked(allocate(slices, claim(every()), gates={"DRAPartitionableDevices": False})) == [
        ["r: pool/d"]
    ]


def test_compatibility_groups_make_a_pool_incomplete_without_their_gate() -> None:
    consumption = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}
    counters = [{"name": "s", "counters": {"c": {"value": "1"}}}]
    slices = [
        resource_slice("a", [device("d")], count=3),
        resource_slice("b", [device("e", consumesCounters=[consumption])], count=3),
        resource_slice("c", count=3, allNodes=True, sharedCounters=counters),
    ]
    assert allocate(slices, claim(exact())) == []
    with pytest.raises(AllocationError, match="currently being updated"):
        allocate(slices, claim(every()))
    assert len(allocate(slices, claim(every()), gates={"DRADeviceCompatibilityGroups": True})) == 1


def test_counters_for_other_nodes_decide_the_generation_only_where_upstream_runs_its_stable_allocator() -> (
    None
):
    shared = [{"name": "s", "counters": {"c": {"value": "1"}}}]
    slices = [
        resource_slice("a", [device("d")], nodeName="worker"),
        resource_slice("b", generation=2, nodeName="other", sharedCounters=shared),
    ]
    assert picked(allocate(slices, claim(exact()))) == [["r: pool/d"]]
    newer = ("DRAConsumableCapacity", "DRAFractionalCapacityRange", "DRADeviceBindingConditions")
    assert allocate(slices, claim(exact()), gates=dict.fromkeys(newer, False)) == []


def test_one_allocator_serves_all_nodes() -> None:
    names = ["n1", "n2"]
    slices = [resource_slice(name, [device(name)], pool=name, nodeName=name) for name in names]
    allocator = make(slices, claim(exact()))
    seen = [picked(allocator.allocate({"metadata": {"name": name}})) for name in names]
    assert seen == [[["r: n1/n1"]], [["r: n2/n2"]]]
    assert allocator.allocate(NODE) == []


def selector(requirements: object) -> dict[str, object]:
    assert isinstance(requirements, list)
    expressions = [
        {"key": key, "operator": operator, "values": values} for key, operator, values in requirements
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
