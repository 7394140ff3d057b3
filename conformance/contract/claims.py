"""Claims as the scheduler would leave them: allocated, reserved, with the driver's devices in their status."""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.client import Client

RESOURCE_API = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
_SERIAL = itertools.count(1)


@dataclass(frozen=True)
class Device:
    """A published device."""

    pool: str
    name: str


@dataclass(frozen=True)
class Allocated:
    """One allocation result. `request` may hold a sub-request ("gpu/large")."""

    device: Device
    request: str = "gpu"
    driver: str = ""
    admin_access: bool = False


@dataclass(frozen=True)
class Config:
    """One entry of allocation.devices.config; `requests` empty means all."""

    parameters: Mapping[str, Any]
    requests: tuple[str, ...] = ()
    driver: str = ""
    source: str = "FromClaim"


@dataclass(frozen=True)
class Claim:
    """What the kubelet tells a driver about a claim, and its results of this driver."""

    namespace: str
    name: str
    uid: str
    results: tuple[Allocated, ...] = field(default=())


class ClaimFactory:
    """Makes claims through an administrator's client, in one namespace unless told otherwise."""

    def __init__(self, client: Client, namespace: str, driver: str, device_class: str) -> None:
        self._client = client
        self._namespace = namespace
        self._driver = driver
        self._class = device_class
        self._made: list[Claim] = []

    def create(
        self,
        results: Sequence[Allocated],
        configs: Sequence[Config] = (),
        *,
        allocate: bool = True,
        namespace: str = "",
        name: str = "",
    ) -> Claim:
        """A claim with these results already allocated (or, on request, without an allocation).

        An empty name lets the factory choose one.
        """
        name = name or f"claim-{next(_SERIAL)}"
        namespace = namespace or self._namespace
        body: dict[str, Any] = {
            "apiVersion": RESOURCE_API,
            "kind": "ResourceClaim",
            "metadata": {"name": name, "finalizers": [FINALIZER] if allocate else []},
            "spec": {"devices": {"requests": self._requests(results)}},
        }
        stored = self._client.create(RESOURCE_API, "resourceclaims", body, namespace)
        claim = Claim(namespace, name, stored["metadata"]["uid"], tuple(results))
        self._made.append(claim)
        if allocate:
            stored["status"] = self._status(results, configs)
            self._client.update(RESOURCE_API, "resourceclaims", stored, "status")
        return claim

    def never_created(self) -> Claim:
        """A claim of which the API server knows nothing."""
        return Claim(self._namespace, f"claim-{next(_SERIAL)}", str(uuid.uuid4()))

    def delete(self, claim: Claim) -> None:
        """Take the claim out of the API at once, finalizer included."""
        self._client.patch(
            RESOURCE_API, "resourceclaims", claim.name, {"metadata": {"finalizers": None}}, claim.namespace
        )
        self._client.delete(RESOURCE_API, "resourceclaims", claim.name, claim.namespace)
        self._made.remove(claim)

    def delete_all(self) -> None:
        """Remove every claim made here."""
        for claim in list(self._made):
            if self._client.find(RESOURCE_API, "resourceclaims", claim.name, claim.namespace) is not None:
                self.delete(claim)
        self._made.clear()

    def _requests(self, results: Sequence[Allocated]) -> list[dict[str, Any]]:
        requests: dict[str, dict[str, Any]] = {}
        for result in results:
            base, _, sub = result.request.partition("/")
            exact: dict[str, Any] = {"deviceClassName": self._class}
            if result.admin_access:
                exact["adminAccess"] = True
            if not sub:
                requests.setdefault(base, {"name": base, "exactly": exact})
                continue
            # An alternative that was not chosen makes the difference between "gpu/small" and "gpu" visible.
            alternatives = requests.setdefault(base, {"name": base, "firstAvailable": []})["firstAvailable"]
            for alternative in (sub, f"not-{sub}"):
                alternatives.append({"name": alternative, "deviceClassName": self._class})
        return list(requests.values())

    def _status(self, results: Sequence[Allocated], configs: Sequence[Config]) -> dict[str, Any]:
        devices: dict[str, Any] = {"results": [self._result(result) for result in results]}
        if configs:
            devices["config"] = [self._config(config) for config in configs]
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        consumer = {"resource": "pods", "name": "consumer", "uid": str(uuid.uuid4())}
        return {"allocation": {"devices": devices, "allocationTimestamp": now}, "reservedFor": [consumer]}

    def _result(self, result: Allocated) -> dict[str, Any]:
        record: dict[str, Any] = {
            "request": result.request,
            "driver": result.driver or self._driver,
            "pool": result.device.pool,
            "device": result.device.name,
        }
        if result.admin_access:
            record["adminAccess"] = True
        return record

    def _config(self, config: Config) -> dict[str, Any]:
        record: dict[str, Any] = {
            "source": config.source,
            "opaque": {"driver": config.driver or self._driver, "parameters": dict(config.parameters)},
        }
        if config.requests:
            record["requests"] = list(config.requests)
        return record
