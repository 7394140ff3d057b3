"""Scheduler and controllers of an embedded cluster."""

from __future__ import annotations

import difflib

from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.controllers.catalogue import controllers
from clusters.embedded.hosting import HostedComponents, Hosting, service_account
from clusters.embedded.scheduler.config import load_config
from clusters.embedded.scheduler.scheduler import Scheduler
from clusters.interface import ClusterSpec

_SCHEDULER, _MANAGER = "scheduler", "controller-manager"


class ControlPlane:
    """All components beside API server and kubelets, by name."""

    def __init__(self, hosting: Hosting, spec: ClusterSpec, ca_pem: bytes) -> None:
        """Register them. Raises ValueError for a scheduler configuration that is wrong."""
        config = load_config(spec.scheduler_config, hosting.gates)
        self._components = {
            _SCHEDULER: hosting.register(
                _SCHEDULER,
                lambda: Scheduler(config),
                User("system:kube-scheduler", groups=("system:authenticated",)),
                "kube-scheduler",
            )
        }
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

    def start(self) -> None:
        """Start all of them."""
        self._components[_MANAGER].start()
        self._components[_SCHEDULER].start()

    def component(self, name: str) -> HostedComponents:
        """One of them, or `controller-manager` for all controllers. Raises ValueError for an unknown name."""
        if name not in self._components:
            close = difflib.get_close_matches(name, self._components, 1)
            hint = f', did you mean "{close[0]}"?' if close else ""
            raise ValueError(f'no component "{name}"{hint}; there are {", ".join(self._components)}')
        return self._components[name]
