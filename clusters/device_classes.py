"""The DeviceClass objects that the kit makes for a driver under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clusters.client import Client, ClientError
from clusters.descriptor import Descriptor

API_VERSION = "resource.k8s.io/v1"


def device_class(name: str, driver: str) -> dict[str, Any]:
    """A class of all devices of a driver."""
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def ensure(
    client: Client,
    descriptor: Descriptor,
    shaped: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda body: body,
) -> list[str]:
    """Make the classes of the descriptor that do not exist; without any, one named like the driver. Gives the names.

    `shaped` gives a class the form that it is made in.
    """
    names = list(descriptor.device_classes) or [descriptor.name]
    for name in names:
        try:
            client.create(API_VERSION, "deviceclasses", shaped(device_class(name, descriptor.name)))
        except ClientError as error:
            if error.reason != "AlreadyExists":
                raise
    return names
