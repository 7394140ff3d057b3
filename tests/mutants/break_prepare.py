"""Mutants of prepare and unprepare."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from typing import Any

import grpc

from driver.sdk import holdings, preparer, services
from driver.sdk.errors import ClaimError, HardwareError
from driver.sdk.inventory import Inventory
from driver.sdk.preparer import Preparer
from driver.sdk.publisher import Publisher
from driver.sdk.records import PreparedDevice, State
from tests.mutants.registry import mutant

PREPARE = Preparer.prepare
UNPREPARE = Preparer.unprepare


def _patch_prepare(prepare: Any) -> None:
    Preparer.prepare = prepare  # type: ignore[method-assign]


def _patch_unprepare(unprepare: Any) -> None:
    Preparer.unprepare = unprepare  # type: ignore[method-assign]


@mutant("forgets-a-device")
def forgets_a_device() -> None:
    """An answer holds the first device of the claim only."""
    _patch_prepare(lambda self, ref: PREPARE(self, ref)[:1])


@mutant("full-request-names")
def full_request_names() -> None:
    """Answers carry request/sub-request, which the kubelet does not find in any container."""
    from driver.sdk import allocation

    allocation.base_request = lambda request: request


@mutant("refuses-repetition")
def refuses_repetition() -> None:
    """A claim that is prepared already is an error."""

    def again(self: Preparer, entry: Any, wanted: Any) -> Any:
        raise ClaimError(f"claim {entry.ref} is already prepared")

    Preparer._again = again  # type: ignore[method-assign]


@mutant("file-per-prepare")
def file_per_prepare() -> None:
    """Every Prepare, repeated ones too, writes one more CDI file."""
    serial = itertools.count()

    def prepare(self: Preparer, ref: Any) -> Any:
        answer = PREPARE(self, ref)
        (self._cdi.directory / f"extra-{ref.uid}-{next(serial)}.tmp").touch()
        return answer

    _patch_prepare(prepare)


@mutant("busy")
def busy() -> None:
    """While a claim is being prepared, a second call for it is an error."""
    lock = threading.Lock()
    running: set[str] = set()

    def prepare(self: Preparer, ref: Any) -> Any:
        with lock:
            if ref.uid in running:
                raise ClaimError("busy")
            running.add(ref.uid)
        try:
            return PREPARE(self, ref)
        finally:
            running.discard(ref.uid)

    _patch_prepare(prepare)


@mutant("versions-differ")
def versions_differ() -> None:
    """Through v1beta1 an answer has no devices."""
    real = services._Plugin.prepare

    def prepare(self: Any, request: Any, context: Any) -> Any:
        response = real(self, request, context)
        if not self._share_ids:
            for answer in response.claims.values():
                del answer.devices[:]
        return response

    services._Plugin.prepare = prepare  # type: ignore[method-assign]


@mutant("ignores-uid")
def ignores_uid() -> None:
    """The claim's name is enough."""
    real = preparer.check_claim
    preparer.check_claim = lambda claim, ref: real({**claim, "metadata": {"uid": ref.uid}}, ref)


@mutant("prepares-unallocated")
def prepares_unallocated() -> None:
    """A claim without allocation counts as one without devices."""
    real = preparer.check_claim
    preparer.check_claim = lambda claim, ref: (
        real(claim, ref) if (claim.get("status") or {}).get("allocation") else {}
    )


@mutant("prepares-missing")
def prepares_missing() -> None:
    """A claim that cannot be found counts as one without devices."""

    def prepare(self: Preparer, ref: Any) -> Any:
        try:
            return PREPARE(self, ref)
        except ClaimError as problem:
            if "not found" in str(problem):
                return []
            raise

    _patch_prepare(prepare)


@mutant("takes-foreign-results")
def takes_foreign_results() -> None:
    """Results are filtered by pool instead of by driver."""
    real = preparer.allocated_devices

    def allocated(allocation: Any, driver: str, configs: Any) -> Any:
        results = allocation["devices"]["results"]
        own = [item for item in results if item["driver"] == driver]
        pools = {item["pool"] for item in own}
        mixed = [{**item, "driver": driver} for item in results if item["pool"] in pools and item not in own]
        # As admin access, or the twin would be refused as a device allocated twice.
        extra = [{**item, "adminAccess": True} for item in mixed]
        return real({"devices": {**allocation["devices"], "results": own + extra}}, driver, configs)

    preparer.allocated_devices = allocated


@mutant("refuses-no-results")
def refuses_no_results() -> None:
    """A claim without a result of this driver is an error."""
    real = Preparer._wanted

    def wanted(self: Preparer, allocation: Any) -> Any:
        devices = real(self, allocation)
        if not devices:
            raise ClaimError("nothing to prepare")
        return devices

    Preparer._wanted = wanted  # type: ignore[method-assign]


@mutant("prepares-twice")
def prepares_twice() -> None:
    """Whether a device is held by another claim is not looked at."""
    holdings._refuse_conflict = lambda device, other: None


@mutant("rewrites-holder")
def rewrites_holder() -> None:
    """Refusing a device, it writes the name of the refused claim into the holder's CDI file."""
    real = holdings._refuse_conflict

    def prepare(self: Preparer, ref: Any) -> Any:
        def refuse(device: Any, other: Any) -> None:
            try:
                real(device, other)
            except ClaimError:
                path = self._cdi.path(other.ref.uid)
                path.write_text(path.read_text() + f"# {ref.name}\n")
                raise

        holdings._refuse_conflict = refuse
        return PREPARE(self, ref)

    _patch_prepare(prepare)


@mutant("error-for-all")
def error_for_all() -> None:
    """One refused claim fails the whole call."""
    real = services._Plugin.prepare

    def prepare(self: Any, request: Any, context: Any) -> Any:
        response = real(self, request, context)
        for answer in response.claims.values():
            if answer.error:
                context.abort(grpc.StatusCode.INTERNAL, answer.error)
        return response

    services._Plugin.prepare = prepare  # type: ignore[method-assign]


@mutant("answers-first-claim")
def answers_first_claim() -> None:
    """Only the first claim of a call is answered."""
    real = services._references
    services._references = lambda request: real(request)[:1]


@mutant("leaves-half")
def leaves_half() -> None:
    """A failed prepare keeps the devices it has got, and unprepare knows only finished claims."""
    Preparer._undo = lambda self, ref: ""  # type: ignore[method-assign]

    def unprepare(self: Preparer, ref: Any) -> None:
        entry = self._checkpoint.get(ref.uid)
        if entry is not None and entry.state is State.PREPARED:
            UNPREPARE(self, ref)

    _patch_unprepare(unprepare)


@mutant("needs-published-slices")
def needs_published_slices() -> None:
    """Prepare looks devices up in a table that the publisher fills."""
    published = threading.Event()
    real = Publisher._stored

    def stored(self: Publisher, sent: Any, item: Any) -> None:
        real(self, sent, item)
        published.set()

    def prepare(self: Preparer, ref: Any) -> Any:
        if not published.is_set():
            raise ClaimError("unknown device")
        return PREPARE(self, ref)

    Publisher._stored = stored  # type: ignore[method-assign]
    _patch_prepare(prepare)


@mutant("takes-any-device")
def takes_any_device() -> None:
    """For a device it does not know it takes the first one it has."""
    real = Inventory.address
    Inventory.address = lambda self, name: (
        real(self, name)
        or next(  # type: ignore[method-assign]
            iter(self._checkpoint.contents.device_names), None
        )
    )


@mutant("refuses-admin")
def refuses_admin() -> None:
    """Admin access needs a free device."""
    PreparedDevice.conflicts = lambda self, other: self.address == other.address  # type: ignore[method-assign]


@mutant("admin-frees-the-device")
def admin_frees_the_device() -> None:
    """When a claim with admin access is unprepared, the claim that holds the device is forgotten."""

    def unprepare(self: Preparer, ref: Any) -> None:
        entry = self._checkpoint.get(ref.uid)
        freed = {device.address for device in entry.devices if device.admin} if entry is not None else set()
        for other in list(self._checkpoint.contents.entries.values()):
            if any(device.address in freed for device in other.devices):
                self._checkpoint.forget(other.ref.uid)
        UNPREPARE(self, ref)

    _patch_unprepare(unprepare)


@mutant("one-namespace")
def one_namespace() -> None:
    """Claims are looked for in the namespace "default" only."""

    def prepare(self: Preparer, ref: Any) -> Any:
        return PREPARE(self, dataclasses.replace(ref, namespace="default"))

    _patch_prepare(prepare)


@mutant("refuses-unknown-unprepare")
def refuses_unknown_unprepare() -> None:
    """Unprepare of a claim it does not know is an error."""

    def unprepare(self: Preparer, ref: Any) -> None:
        if self._checkpoint.get(ref.uid) is None:
            raise ClaimError(f"claim {ref} is not prepared")
        UNPREPARE(self, ref)

    _patch_unprepare(unprepare)


@mutant("refuses-second-unprepare")
def refuses_second_unprepare() -> None:
    """A claim can be unprepared once."""
    done: set[str] = set()

    def unprepare(self: Preparer, ref: Any) -> None:
        if ref.uid in done:
            raise ClaimError(f"claim {ref} is unprepared already")
        UNPREPARE(self, ref)
        done.add(ref.uid)

    _patch_unprepare(unprepare)


@mutant("never-lets-go")
def never_lets_go() -> None:
    """Unprepare is always an error."""

    def unprepare(self: Preparer, ref: Any) -> None:
        raise ClaimError(f"claim {ref} stays")

    _patch_unprepare(unprepare)


@mutant("unprepare-reads-claim")
def unprepare_reads_claim() -> None:
    """Unprepare reads the claim from the API."""

    def unprepare(self: Preparer, ref: Any) -> None:
        if self._claims.claim(ref.namespace, ref.name) is None:
            raise ClaimError(f"claim {ref} not found")
        UNPREPARE(self, ref)

    _patch_unprepare(unprepare)


@mutant("leaks-devices")
def leaks_devices() -> None:
    """Every third unprepare is a lie."""
    calls: list[str] = []

    def unprepare(self: Preparer, ref: Any) -> None:
        calls.append(ref.uid)
        if len(calls) % 3:
            UNPREPARE(self, ref)

    _patch_unprepare(unprepare)


@mutant("unprepare-needs-hardware")
def unprepare_needs_hardware() -> None:
    """Unprepare opens every device of the claim."""

    def unprepare(self: Preparer, ref: Any) -> None:
        entry = self._checkpoint.get(ref.uid)
        try:
            for device in entry.devices if entry is not None else ():
                self._profile.edits(device.address, device.name, device.settings)
        except HardwareError as problem:
            raise ClaimError(str(problem)) from problem
        UNPREPARE(self, ref)

    _patch_unprepare(unprepare)
