"""Scheduler and controllers of an embedded cluster."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from allocator.ledger import Ledger
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.controllers.catalogue import controllers
from clusters.embedded.hosting import HostedComponents, Hosting, service_account
from clusters.embedded.scheduler.config import load_config
from clusters.embedded.scheduler.scheduler import Scheduler
from clusters.embedded.scheduler.share import Share
from clusters.interface import ClusterSpec

_SCHEDULER, _MANAGER, _LEDGER = "scheduler", "controller-manager", "ledger"


class ControlPlane:
    """All components beside API server and kubelets, by name."""

    def __init__(self, hosting: Hosting, spec: ClusterSpec, ca_pem: bytes, root: Path) -> None:
        """Register them; `root` is the cluster's folder.

        Raises ValueError for a scheduler configuration that is wrong, or a URL that is none of Redis.
        """
        self._components: dict[str, HostedComponents] = {}
        self._add_schedulers(hosting, spec, root)
        self._scheduling = list(self._components.values())
        names = []
        for controller in controllers(ca_pem.decode()):
            if controller.gate and not hosting.gates.get(controller.gate):
                continue
            self._components[controller.name] = hosting.register(
                controller.name,
                controller.factory,
                service_account("kube-system", controller.service_account),
                "kube-controller-manager",
                User("system:kube-controller-manager", groups=("system:authenticated",)),
            )
            names.append(controller.name)
        self._components[_MANAGER] = HostedComponents(hosting.host, names)

    def _add_schedulers(self, hosting: Hosting, spec: ClusterSpec, root: Path) -> None:
        config = load_config(spec.scheduler_config, hosting.gates)
        ledger: Callable[[], Ledger] | None = None
        if spec.schedulers > 1 or spec.ledger:
            # Who has a single scheduler does without the time that it takes to load Redis' client.
            from allocator.ledger import remote
            from clusters.embedded.ledger import LedgerComponent

            socket = root / "ledger.sock"
            url = spec.ledger or f"unix://{socket}"
            ledger = partial(remote.connect, url, f"drakit:{root.name}")
            if not spec.ledger:
                self._components[_LEDGER] = hosting.register(
                    _LEDGER, partial(LedgerComponent, socket), User("drakit:ledger"), "ledger"
                )
        for index in range(spec.schedulers):
            name = f"{_SCHEDULER}-{index + 1}" if index else _SCHEDULER
            self._components[name] = hosting.register(
                name,
                partial(Scheduler, config, Share(index, spec.schedulers, name), ledger),
                User("system:kube-scheduler", groups=("system:authenticated",)),
                "kube-scheduler",
            )

    def start(self) -> None:
        """Start all of them."""
        self._components[_MANAGER].start()
        for component in self._scheduling:
            component.start()

    def component(self, name: str) -> HostedComponents:
        """One of them, or `controller-manager` for all controllers. Raises ValueError for an unknown name."""
        if name not in self._components:
            close = difflib.get_close_matches(name, self._components, 1)
            hint = f', did you mean "{close[0]}"?' if close else ""
            raise ValueError(f'no component "{name}"{hint}; there are {", ".join(self._components)}')
        return self._components[name]
