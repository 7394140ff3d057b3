"""Prepares and unprepares the claims of Pods."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.embedded.kubelet.dra.checkpoint import CheckpointError
from clusters.embedded.kubelet.dra.claim_names import PodClaim, check_owner, is_reserved, pod_claims
from clusters.embedded.kubelet.dra.claims import (
    SKIP_PREPARE,
    SKIP_UNPREPARE,
    ClaimCache,
    ClaimError,
    ClaimInfo,
    claim_info,
)
from clusters.embedded.kubelet.dra.health import HealthCache, claim_health
from clusters.embedded.kubelet.plugins import PluginManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.rules import ClaimReference, PluginError, PreparedDevice
from clusters.embedded.kubelet.serving.metrics import Metrics
from clusters.embedded.kubelet.threads import in_thread
from dra_api.quantity import Quantity
from node_api import services

OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
EXTENDED_RESOURCE: Final = "DRAExtendedResource"
HEALTH_STATUS: Final = "ResourceHealthStatus"
HEALTH_MESSAGE: Final = "ResourceHealthStatusMessage"
WORKLOAD_CLAIMS: Final = "DRAWorkloadResourceClaims"
FetchClaim = Callable[[str, str], Awaitable[Object]]
"""Gives a ResourceClaim by namespace and name. Raises ClientError."""


class ClaimManager:
    """The claims of one node, for one life of the kubelet."""

    def __init__(
        self,
        cache: ClaimCache,
        health: HealthCache,
        plugins: PluginManager,
        fetch: FetchClaim,
        gates: Mapping[str, bool],
        metrics: Metrics,
    ) -> None:
        self.cache, self.health = cache, health
        self._plugins, self._fetch, self._gates, self._metrics = plugins, fetch, gates, metrics

    # Prepare

    async def prepare(self, pod: Object) -> None:
        """Have drivers prepare all claims of the Pod that are not prepared yet. Raises ClaimError."""
        with self._measured("PrepareResources", "prepare dynamic resources"):
            await self._prepare(pod)

    async def _prepare(self, pod: Object) -> None:
        # Nothing is noted before everything was found valid: a Pod that cannot start can then be deleted at once.
        infos = [
            info for claim in self._claims(pod) if (info := await self._validated(pod, claim)) is not None
        ]
        batches: dict[str, list[ClaimReference]] = {}
        touched: list[ClaimInfo] = []
        for fresh in infos:
            info = self._attach(pod, fresh)
            if info.prepared:
                continue
            touched.append(info)
            for driver, state in info.drivers.items():
                if state.skipped(SKIP_PREPARE):
                    self._metrics.prepare_skipped(driver)
                else:
                    batches.setdefault(driver, []).append(info.reference)
        for driver in _in_any_order(batches):
            await self._call_prepare(driver, batches[driver], touched)
        for info in touched:
            if self.cache.get(info.namespace, info.name) is not info:
                raise ClaimError(
                    f"internal error: unable to get claim info for ResourceClaim {info.name} "
                    f"in namespace {info.namespace}"
                )
            info.prepared = True
        try:
            self.cache.store()
        except CheckpointError as error:
            raise ClaimError(f"checkpoint ResourceClaim state: {error}") from error

    def _claims(self, pod: Object) -> list[PodClaim]:
        return pod_claims(pod, extended=self._gates.get(EXTENDED_RESOURCE, True))

    async def _validated(self, pod: Object, claim: PodClaim) -> ClaimInfo | None:
        name = claim.object_name(pod)
        if name is None:
            return None
        try:
            found = await self._fetch(objects.namespace(pod), name)
        except ClientError as error:
            raise ClaimError(f"fetch ResourceClaim {name}: {error.message}") from error
        groups = self._gates.get(WORKLOAD_CLAIMS, False)
        if claim.generated:
            check_owner(pod, found, groups=groups)
        if not is_reserved(pod, found, groups=groups):
            raise ClaimError(
                f"pod {objects.name(pod)} ({objects.uid(pod)}) is not allowed to use ResourceClaim {name} "
                f"({found['metadata']['uid']})"
            )
        info = claim_info(found, optional_operations=self._gates.get(OPTIONAL_OPERATIONS, False))
        for driver, state in info.drivers.items():
            if not state.skipped(SKIP_PREPARE):
                self._check_registered(driver)
        return info

    def _check_registered(self, driver: str) -> None:
        try:
            self._plugins.target(driver)
        except PluginError as error:
            raise ClaimError(str(error)) from error

    def _attach(self, pod: Object, fresh: ClaimInfo) -> ClaimInfo:
        """Note that the Pod uses the claim, durably and before any call."""
        info = self.cache.get(fresh.namespace, fresh.name)
        if info is None:
            info = fresh
            self.cache.add(info)
        elif info.uid != fresh.uid:
            raise ClaimError(
                f"old ResourceClaim with same name {fresh.name} and different UID {info.uid} still exists "
                "(previous pod force-deleted?!)"
            )
        elif info.unpreparing:
            raise ClaimError(f"ResourceClaim {fresh.name} is being unprepared")
        info.pods.add(objects.uid(pod))
        try:
            self.cache.store()
        except CheckpointError as error:
            raise ClaimError(f"checkpoint ResourceClaim cache: {error}") from error
        return info

    async def _call_prepare(
        self, driver: str, claims: list[ClaimReference], infos: Sequence[ClaimInfo]
    ) -> None:
        """Call a driver; what it has prepared is noted even if the answer is wrong elsewhere."""
        devices: Mapping[str, tuple[PreparedDevice, ...]] = {}
        try:
            with self._grpc(driver, services.NODE_PREPARE_RESOURCES):
                try:
                    devices = (await in_thread(self._plugins.prepare, driver, claims)).devices
                except PluginError as error:
                    devices = error.devices
                    raise
        finally:
            for info in infos:
                if info.uid in devices:
                    info.drivers[driver].devices = devices[info.uid]

    @contextmanager
    def _grpc(self, driver: str, method: str) -> Iterator[None]:
        try:
            service = self._plugins.target(driver).service
        except PluginError as error:
            raise ClaimError(str(error)) from error
        started = time.monotonic()
        code = "OK"
        try:
            yield
        except PluginError as error:
            code = self._metrics.code_name(error)
            raise ClaimError(str(error)) from error
        finally:
            full = services.full_method(service, method)
            self._metrics.grpc_call(driver, full, code, time.monotonic() - started)

    @contextmanager
    def _measured(self, operation: str, prefix: str) -> Iterator[None]:
        started = time.monotonic()
        failed = True
        try:
            yield
            failed = False
        except ClaimError as error:
            raise ClaimError(f"{prefix}: {error}") from error
        finally:
            self._metrics.operation(operation, time.monotonic() - started, failed=failed)

    # What containers get

    def _requests(self, pod: Object, container: Object) -> dict[str, list[str]]:
        """Claim name -> requests that the container refers to, "" for the whole claim."""
        wanted: dict[str, list[str]] = {}
        for entry in (container.get("resources") or {}).get("claims") or []:
            wanted.setdefault(entry["name"], []).append(entry.get("request") or "")
        result: dict[str, list[str]] = {}
        for claim in self._claims(pod):
            requests = _extended_requests(pod, container) if claim.extended else wanted.get(claim.name, [])
            if requests and (name := claim.object_name(pod)) is not None:
                result.setdefault(name, []).extend(requests)
        return result

    def cdi_devices(self, pod: Object, container: Object) -> tuple[str, ...]:
        """CDI names for a container. Raises ClaimError for a claim that is not prepared."""
        names: list[str] = []
        for claim, requests in self._requests(pod, container).items():
            info = self.cache.get(objects.namespace(pod), claim)
            if info is None:
                raise ClaimError(
                    f"internal error: unable to get claim info for ResourceClaim {claim} "
                    f"in namespace {objects.namespace(pod)}"
                )
            for request in requests:
                names += info.cdi_devices(request)
        return tuple(names)

    def container_claims(self, pod: Object, container: Object) -> list[ClaimInfo]:
        """Claims that a container refers to. Raises ClaimError for one that is not prepared."""
        infos = []
        for claim in self._requests(pod, container):
            info = self.cache.get(objects.namespace(pod), claim)
            if info is None:
                raise ClaimError(
                    f"unable to get information for ResourceClaim {claim} in namespace {objects.namespace(pod)}"
                )
            infos.append(info)
        return infos

    def report_health(self, pod: Object, statuses: Sequence[Object]) -> None:
        """Set allocatedResourcesStatus of regular containers that refer to claims."""
        if not self._gates.get(HEALTH_STATUS, True):
            return
        messages = self._gates.get(HEALTH_MESSAGE, True)
        names = {claim.name: claim for claim in self._claims(pod) if not claim.extended}
        specs = {container["name"]: container for container in objects.containers(pod)}
        for status in statuses:
            wanted = (specs[status["name"]].get("resources") or {}).get("claims") or []
            if not wanted:
                continue
            entries = {item["name"]: item for item in status.get("allocatedResourcesStatus") or []}
            for entry in wanted:
                info = self._info(pod, names.get(entry["name"]))
                if info is None:
                    continue
                request = entry.get("request") or ""
                name = f"claim:{entry['name']}" + (f"/{request}" if request else "")
                devices = claim_health(info, request, self.health, messages=messages)
                entries[name] = {"name": name, "resources": devices}
            listed = [entries[name] for name in sorted(entries) if entries[name].get("resources")]
            status.pop("allocatedResourcesStatus", None)
            if listed:
                status["allocatedResourcesStatus"] = listed

    def _info(self, pod: Object, claim: PodClaim | None) -> ClaimInfo | None:
        """What is known of a claim; None when it is not prepared."""
        if claim is None:
            return None
        try:
            name = claim.object_name(pod)
        except ClaimError:
            return None
        return self.cache.get(objects.namespace(pod), name) if name is not None else None

    # Unprepare

    async def unprepare(self, pod: Object) -> None:
        """Have drivers unprepare the claims that no other Pod uses. Raises ClaimError."""
        with self._measured("UnprepareResources", "unprepare dynamic resources"):
            names = [info.name for info in self.cache.of_pod(objects.uid(pod))]
            if not names:
                found = [claim.object_name(pod) for claim in self._claims(pod)]
                names = [name for name in found if name is not None]
            await self._unprepare(objects.uid(pod), objects.namespace(pod), names)

    async def _unprepare(self, pod_uid: str, namespace: str, names: list[str]) -> None:
        batches: dict[str, list[ClaimReference]] = {}
        going: list[ClaimInfo] = []
        noted = False
        for name in names:
            info = self.cache.get(namespace, name)
            if info is None or pod_uid not in info.pods:
                continue
            noted = True
            if len(info.pods) > 1:
                info.pods.discard(pod_uid)
                continue
            going.append(info)
            info.unpreparing = True
            for driver, state in info.drivers.items():
                if state.skipped(SKIP_UNPREPARE):
                    self._metrics.unprepare_skipped(driver)
                else:
                    batches.setdefault(driver, []).append(info.reference)
        for driver in _in_any_order(batches):
            with self._grpc(driver, services.NODE_UNPREPARE_RESOURCES):
                await in_thread(self._plugins.unprepare, driver, batches[driver])
        for info in going:
            self.cache.delete(info.namespace, info.name)
        if not noted:
            return
        try:
            self.cache.store()
        except CheckpointError as error:
            raise ClaimError(f"checkpoint ResourceClaim state: {error}") from error

    def might_need_unprepare(self, pod_uid: str) -> bool:
        """Whether a claim refers to the Pod."""
        return bool(self.cache.of_pod(pod_uid))

    async def reconcile(self, active: set[str]) -> list[str]:
        """Unprepare claims for Pods that are not active any more; return what failed."""
        gone: dict[str, list[ClaimInfo]] = {}
        for info in self.cache.items():
            for pod_uid in info.pods - active:
                gone.setdefault(pod_uid, []).append(info)
        problems = []
        for pod_uid, infos in gone.items():
            try:
                await self._unprepare(pod_uid, infos[0].namespace, [info.name for info in infos])
            except ClaimError as error:
                problems.append(
                    f'Unpreparing pod resources in reconcile loop failed, will retry podUID="{pod_uid}" err="{error}"'
                )
        return problems


def _in_any_order(batches: Mapping[str, object]) -> list[str]:
    """Drivers are called in no particular order, as by a real kubelet; nobody should rely on one."""
    drivers = list(batches)
    CHANCE.shuffle(drivers)
    return drivers


def _extended_requests(pod: Object, container: Object) -> list[str]:
    requests = (container.get("resources") or {}).get("requests") or {}
    asked = {name for name, amount in requests.items() if not Quantity.parse(str(amount)).is_zero()}
    mappings = (objects.status(pod).get("extendedResourceClaimStatus") or {}).get("requestMappings") or []
    return [
        mapping["requestName"]
        for mapping in mappings
        if mapping["containerName"] == container["name"] and mapping["resourceName"] in asked
    ]
