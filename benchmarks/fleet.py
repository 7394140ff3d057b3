"""Clusters to allocate from: nodes with a slice of GPUs each, as a driver publishes them."""

from __future__ import annotations

import random
from typing import Any

Object = dict[str, Any]

DRIVER = "gpu.example.com"
SELECTOR = (
    f'device.attributes["{DRIVER}"].architecture == "Hopper"'
    f' && device.attributes["{DRIVER}"].driverVersion.compareTo(semver("1.2.0")) >= 0'
    f' && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)


def node_name(number: int) -> str:
    return f"node-{number:05}"


def node(number: int) -> Object:
    name = node_name(number)
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def slice_(number: int, devices: int) -> Object:
    name = node_name(number)
    return {
        "metadata": {"name": f"{name}-{DRIVER}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number, index) for index in range(devices)],
        },
    }


def _device(number: int, index: int) -> Object:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "architecture": {"string": "Hopper"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "1.4.0"},
            "index": {"int": index},
            "mig": {"bool": False},
            "productName": {"string": "NVIDIA H200"},
            "uuid": {"string": f"gpu-{number:08x}-{index:04x}"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02x}"},
        },
        "capacity": {"cores": {"value": "132"}, "memory": {"value": "80Gi"}},
    }


def device_class() -> Object:
    expression = f'device.driver == "{DRIVER}"'
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def claim(count: int = 1) -> Object:
    wanted = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": SELECTOR}}],
    }
    return {
        "metadata": {"name": "claim", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}},
    }


def line(nodes: int, devices: int, used: float, count: int = 1) -> Object:
    """A line for the oracle about all nodes; `used` is the share of devices that others have, chosen at random."""
    names = [
        f"{DRIVER}/{node_name(number)}/gpu-{index}" for number in range(nodes) for index in range(devices)
    ]
    taken = random.Random(7).sample(names, round(used * len(names)))
    return {
        "nodes": [node(number) for number in range(nodes)],
        "claims": [claim(count)],
        "deviceClasses": [device_class()],
        "resourceSlices": [slice_(number, devices) for number in range(nodes)],
        "allocated": {"devices": taken},
    }
