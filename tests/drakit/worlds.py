"""Random small clusters for properties of drakit explain, allocate and devices."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from drakit.offline.world import World

DRIVER = "gpu.example.com"
SHARE = "8a36d9a4-0b7c-4d26-8d55-{:012d}"


def _device(draw: st.DrawFn, name: str, node: str) -> dict[str, Any]:
    device: dict[str, Any] = {"name": name}
    if draw(st.booleans()):
        device["attributes"] = {"numa": {"int": draw(st.integers(0, 1))}}
    if draw(st.integers(0, 4)) == 0:
        device["taints"] = [
            {"key": "k", "effect": draw(st.sampled_from(("NoSchedule", "NoExecute", "None")))}
        ]
    kind = draw(st.sampled_from(("plain", "plain", "shared", "part")))
    if kind == "shared":
        device |= {
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10", "requestPolicy": {"default": "2"}}},
        }
    elif kind == "part":
        device["consumesCounters"] = [
            {"counterSet": "set", "counters": {"memory": {"value": str(draw(st.integers(1, 3)))}}}
        ]
    return device


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One or two nodes with up to four devices each, some of them in use, and a claim `c` that waits."""
    objects: list[dict[str, Any]] = []
    for name, selectors in (("any", []), ("gpu", [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}])):
        objects.append(_object("DeviceClass", name, {"selectors": selectors}))
    number = 0
    for node in ("n1", "n2")[: draw(st.integers(1, 2))]:
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        devices = [_device(draw, f"d{index}", node) for index in range(draw(st.integers(0, 4)))]
        parts = any("consumesCounters" in device for device in devices)
        count = 1 + parts + (draw(st.integers(0, 9)) == 0)
        pool = {"name": node, "generation": 1, "resourceSliceCount": count}
        base = {"driver": DRIVER, "nodeName": node, "pool": pool}
        objects.append(_object("ResourceSlice", f"{node}-devices", {**base, "devices": devices}))
        if parts:
            sets = [{"name": "set", "counters": {"memory": {"value": "4"}}}]
            objects.append(_object("ResourceSlice", f"{node}-counters", {**base, "sharedCounters": sets}))
        for device in devices:
            if draw(st.integers(0, 3)) == 0:
                number += 1
                objects.append(_holder(number, node, device))
    objects.append(_object("ResourceClaim", "c", {"devices": _wanted(draw)}))
    return World.of(objects)


def _holder(number: int, node: str, device: dict[str, Any]) -> dict[str, Any]:
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device["name"]}
    if device.get("allowMultipleAllocations"):
        result |= {"shareID": SHARE.format(number), "consumedCapacity": {"memory": str(number % 10 + 1)}}
    claim = _object("ResourceClaim", f"holder-{number}", {"devices": {}})
    return claim | {"status": {"allocation": {"devices": {"results": [result]}}}}


def _wanted(draw: st.DrawFn) -> dict[str, Any]:
    requests = []
    for index in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 3)) == 0:
            choices = [{"name": f"s{number}", **_details(draw)} for number in range(draw(st.integers(1, 2)))]
            requests.append({"name": f"r{index}", "firstAvailable": choices})
        else:
            exactly = _details(draw)
            if draw(st.integers(0, 7)) == 0:
                exactly["adminAccess"] = True
            requests.append({"name": f"r{index}", "exactly": exactly})
    devices: dict[str, Any] = {"requests": requests}
    if draw(st.integers(0, 2)) == 0:
        kind = draw(st.sampled_from(("matchAttribute", "distinctAttribute")))
        devices["constraints"] = [{kind: f"{DRIVER}/numa"}]
    return devices


def _details(draw: st.DrawFn) -> dict[str, Any]:
    details: dict[str, Any] = {"deviceClassName": draw(st.sampled_from(("any", "gpu", "gpu", "gpu")))}
    if draw(st.integers(0, 5)) == 0:
        details["allocationMode"] = "All"
    else:
        details["count"] = draw(st.integers(1, 3))
    selector = draw(st.sampled_from(("", "", "", f'device.attributes["{DRIVER}"].?numa.orValue(7) == 1',
                                     f'device.attributes["{DRIVER}"].numa == 1')))  # fmt: skip
    if selector:
        details["selectors"] = [{"cel": {"expression": selector}}]
    if draw(st.integers(0, 3)) == 0:
        details["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 9)))}}
    if draw(st.integers(0, 3)) == 0:
        details["tolerations"] = [{"operator": "Exists"}]
    return details


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
