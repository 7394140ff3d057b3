"""Mutants of slices, publishing, permissions and of the end of a driver."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

from driver.profiles import gpu
from driver.sdk import api, log, publisher, readiness, slices
from driver.sdk.api import Api, ApiFailure, Connection
from driver.sdk.errors import SettingsError
from driver.sdk.plugin import Plugin
from driver.sdk.publisher import Publisher
from driver.sdk.readiness import Readiness
from driver.sdk.slice_cache import SliceCache
from tests.mutants.registry import descriptor_mutant, mutant

_NEVER = 1e9


@mutant("publishes-nothing")
def publishes_nothing() -> None:
    """No slice is ever written."""
    Publisher._apply = lambda self, todo: None  # type: ignore[method-assign]


def _patch_spec(change: Any) -> None:
    real = slices._spec

    def spec(*arguments: Any) -> Any:
        found = real(*arguments)
        change(found)
        return found

    slices._spec = spec


@mutant("wrong-count")
def wrong_count() -> None:
    """resourceSliceCount is one too many."""
    _patch_spec(lambda spec: spec["pool"].update(resourceSliceCount=spec["pool"]["resourceSliceCount"] + 1))


@mutant("no-owner")
def no_owner() -> None:
    """Slices have no owner."""
    slices._owners = lambda pool: []


@mutant("starts-over")
def starts_over() -> None:
    """At each start all slices are replaced, beginning with generation 1."""
    real = publisher.plan
    first = itertools.count()

    def plan(pool: Any, devices: Any, existing: Any, accepted: Any) -> Any:
        if next(first) == 0 and existing:
            new = real(pool, devices, [], accepted)
            return slices.Plan(tuple(existing), (), new.creates)
        return real(pool, devices, existing, accepted)

    publisher.plan = plan


@mutant("hides-used-devices")
def hides_used_devices() -> None:
    """Slices list what is free."""
    from driver.sdk.inventory import Inventory

    real = Inventory.look

    def look(self: Inventory) -> Any:
        held = {
            device.name for entry in self._checkpoint.contents.entries.values() for device in entry.devices
        }
        return {name: device for name, device in real(self).items() if name not in held}

    Inventory.look = look  # type: ignore[method-assign]


@mutant("never-repairs")
def never_repairs() -> None:
    """What others do to its slices is not noticed."""
    Publisher._disturbed = lambda self: None  # type: ignore[method-assign]


@mutant("keeps-edits")
def keeps_edits() -> None:
    """Missing slices come back, changed ones stay changed."""
    slices._same = lambda *arguments: True


@mutant("raw-strings")
def raw_strings() -> None:
    """Strings and versions of the hardware are published as they are."""
    gpu.string_attribute = lambda text: {"string": text or ""}
    gpu.version_attribute = lambda text: {"version": text or ""}


@mutant("attribute-twice")
def attribute_twice() -> None:
    """Attributes are published bare and with the driver's domain."""
    real = gpu.attributes

    def attributes(found: Any) -> Any:
        plain = real(found)
        return {**plain, **{f"gpu.drakit.dev/{name}": plain[name] for name in ("type", "uuid")}}

    gpu.attributes = attributes


@mutant("silent-without-devices")
def silent_without_devices() -> None:
    """Finding no device is nothing to talk about."""
    quiet = SimpleNamespace(info=log.info, warning=lambda *words, **more: None, error=log.error)
    publisher.log = gpu.log = quiet  # type: ignore[assignment]
    real = Readiness.set
    Readiness.set = lambda self, name, reason="": real(self, name)  # type: ignore[method-assign]


@mutant("chatty")
def chatty() -> None:
    """Slices are written every five seconds, changed or not."""
    real = slices._same
    ticks = itertools.count()
    slices._same = lambda *arguments: real(*arguments) and next(ticks) % 2 == 0
    start = Publisher.run

    def run(self: Publisher) -> None:
        def tick() -> None:
            while not self._stopped:
                threading.Event().wait(5.0)
                self._schedule(0.0)

        threading.Thread(target=tick, daemon=True).start()
        start(self)

    Publisher.run = run  # type: ignore[method-assign]


@mutant("odd-bus-id")
def odd_bus_id() -> None:
    """pciBusID has no PCI domain."""
    real = gpu.attributes

    def attributes(found: Any) -> Any:
        short = {"resource.kubernetes.io/pciBusID": {"string": found.bdf.partition(":")[2]}}
        return {**real(found), **short}

    gpu.attributes = attributes


def _gives_up(*statuses: int) -> None:
    real = Publisher._after
    Publisher._after = lambda self, problem: (  # type: ignore[method-assign]
        _NEVER if problem.status in statuses else real(self, problem)
    )
    # The cache would wake the publisher otherwise.
    Publisher._disturbed = lambda self: None  # type: ignore[method-assign]


@mutant("gives-up-on-conflict")
def gives_up_on_conflict() -> None:
    """A conflict ends publishing."""
    _gives_up(409)


@mutant("gives-up-on-server-error")
def gives_up_on_server_error() -> None:
    """A server error ends publishing."""
    _gives_up(500, 503)


@mutant("gives-up-on-429")
def gives_up_on_429() -> None:
    """Too many requests ends publishing."""
    _gives_up(429)


@mutant("ignores-retry-after")
def ignores_retry_after() -> None:
    """It comes back before it may."""
    real = ApiFailure.__init__

    def init(self: ApiFailure, *arguments: Any, **more: Any) -> None:
        real(self, *arguments, **more)
        self.retry_after = 0.0

    ApiFailure.__init__ = init  # type: ignore[method-assign]


@mutant("hammers")
def hammers() -> None:
    """A refused slice is written again at once, for ever."""
    Publisher._after = lambda self, problem: 0.05  # type: ignore[method-assign]


@mutant("silent-refusal-of-slices")
def silent_refusal_of_slices() -> None:
    """That the API server refuses its slices it keeps to itself."""
    publisher.log = readiness.log = SimpleNamespace(  # type: ignore[assignment]
        info=log.info, warning=lambda *words, **more: None, error=lambda *words, **more: None
    )


@mutant("ends-with-its-watch")
def ends_with_its_watch() -> None:
    """When a watch expires it stops watching."""
    real = SliceCache.relist
    calls = itertools.count()

    def relist(self: SliceCache) -> Any:
        if threading.current_thread().name == "slices" and next(calls) > 0:
            threading.Event().wait()
        return real(self)

    SliceCache.relist = relist  # type: ignore[method-assign]


@mutant("impatient")
def impatient() -> None:
    """It gives the API server one second to answer."""
    api._TIMEOUT = (1.0, 1.0)  # type: ignore[misc]


@mutant("gives-up-when-cut")
def gives_up_when_cut() -> None:
    """A cut connection ends publishing."""
    _gives_up(0)


@mutant("writes-blindly")
def writes_blindly() -> None:
    """A create without an answer is sent again at once, without a look at what is there."""
    real = Api.create_slice

    def create(self: Api, item: Any) -> Any:
        try:
            return real(self, item)
        except ApiFailure as problem:
            if problem.status:
                raise
            return real(self, item)

    Api.create_slice = create  # type: ignore[method-assign]
    # Nor does it look later.
    Publisher._disturbed = lambda self: None  # type: ignore[method-assign]


@mutant("undeclared-call")
def undeclared_call() -> None:
    """It lists the Pods of all namespaces, which nobody has been told."""
    real = Api.node_uid

    def node_uid(self: Api, name: str) -> str:
        try:
            self._json("GET", "/api/v1/pods")
        except ApiFailure as problem:
            log.info("pods are not known", problem=problem)
        return real(self, name)

    Api.node_uid = node_uid  # type: ignore[method-assign]


@descriptor_mutant("wildcard")
def wildcard(document: dict[str, Any]) -> None:
    """Its permissions hold a wildcard."""
    document["permissions"][0]["verbs"] = ["*"]


@mutant("foreign-slice")
def foreign_slice() -> None:
    """It publishes a slice for a node it does not run on."""
    real = Api.create_slice

    def create(self: Api, item: Any) -> Any:
        pool = {"name": f"elsewhere-{os.getpid()}", "generation": 1, "resourceSliceCount": 1}
        spec = {**item["spec"], "nodeName": "elsewhere", "pool": pool}
        real(self, {**item, "metadata": {"generateName": "elsewhere-"}, "spec": spec})
        return real(self, item)

    Api.create_slice = create  # type: ignore[method-assign]


@mutant("ignores-sigterm")
def ignores_sigterm() -> None:
    """The stop signal changes nothing."""
    real = Plugin.start

    def start(self: Plugin) -> None:
        real(self)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    Plugin.start = start  # type: ignore[method-assign]


@mutant("leaves-its-socket")
def leaves_its_socket() -> None:
    """It ends at once and leaves its sockets."""
    Plugin.stop = lambda self: os._exit(0)  # type: ignore[method-assign]


@mutant("takes-slices-along")
def takes_slices_along() -> None:
    """When it stops it deletes its slices."""
    real = Plugin.stop

    def stop(self: Plugin) -> None:
        if self._publisher is not None:
            for item in self._publisher.cache.items():
                self._publisher._api.delete_slice(item)
        real(self)

    Plugin.stop = stop  # type: ignore[method-assign]


@mutant("stops-with-an-error")
def stops_with_an_error() -> None:
    """A clean stop ends with an exit code that says otherwise."""
    real = Plugin.stop

    def stop(self: Plugin) -> None:
        real(self)
        os._exit(143)

    Plugin.stop = stop  # type: ignore[method-assign]


@mutant("silent-without-kubeconfig")
def silent_without_kubeconfig() -> None:
    """Without an API client it goes on and says nothing."""
    real = Connection.connect

    def connect(self: Connection, *arguments: Any) -> Any:
        try:
            return real(self, *arguments)
        except SettingsError:
            threading.Event().wait()

    Connection.connect = connect  # type: ignore[method-assign]
