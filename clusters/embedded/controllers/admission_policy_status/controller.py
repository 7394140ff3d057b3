"""Writes what a check of types finds into the status of ValidatingAdmissionPolicies.

Source: kubernetes v1.37.2 `pkg/controller/validatingadmissionpolicystatus`.
"""

from __future__ import annotations

from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.admission_policy_status.type_check import warnings_of
from clusters.embedded.controllers.discovery import discover
from clusters.embedded.controllers.run import run_controller

_VERSION: Final = "admissionregistration.k8s.io/v1"
_RESOURCE: Final = "validatingadmissionpolicies"
_MANAGER: Final = "validatingadmissionpolicy-status"


class AdmissionPolicyStatusController:
    """Looks at each new spec of a policy once."""

    name = "validatingadmissionpolicy-status-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        client = context.client
        discovery = await discover(client)
        policies = Informer(context.reader, _VERSION, _RESOURCE)
        queue: WorkQueue[str] = WorkQueue(context.clock)

        def changed(old: Object | None, new: Object | None) -> None:
            if new is not None:
                queue.add(new["metadata"]["name"])

        async def sync(name: str) -> None:
            policy = policies.get("", name)
            if policy is None:
                return
            generation = policy["metadata"].get("generation", 0)
            if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
                return
            warnings = warnings_of(policy.get("spec") or {}, discovery)
            checked: Object = {"expressionWarnings": warnings} if warnings else {}
            body = {
                "apiVersion": _VERSION,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name},
                "status": {"observedGeneration": generation, "typeChecking": checked},
            }
            await client.apply(_VERSION, _RESOURCE, body, field_manager=_MANAGER, subresource="status")

        policies.add_handler(changed)
        await run_controller(context.log, (policies,), queue, sync)
