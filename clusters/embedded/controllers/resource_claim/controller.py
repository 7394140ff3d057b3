"""The component: caches, and what a change in them means for pods and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.controllers.resource_claim.claim_sync import ClaimSync
from clusters.embedded.controllers.resource_claim.created import (
    OWNER_INDEX,
    CreatedClaims,
    SeenDeleted,
    owner_keys,
)
from clusters.embedded.controllers.resource_claim.pod_sync import PodSync
from clusters.embedded.controllers.resource_claim.references import PodClaimError
from clusters.embedded.controllers.run import run_controller

API_VERSION: Final = "resource.k8s.io/v1"
_WORKERS: Final = 5
_POD, _CLAIM = "pod", "claim"
_BY_CLAIM, _BY_TEMPLATE = "claim", "template"
WorkItem = tuple[str, str, str]
"""What to look at (a pod or a claim), its namespace and name."""


class ResourceClaimController:
    """Makes claims for pods that name a template, and takes reservations and allocations away when pods are done."""

    name = "resourceclaim-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        await _Life(context).run()


class _Life:
    def __init__(self, context: Context) -> None:
        client = context.client
        self._context = context
        self._queue: WorkQueue[WorkItem] = WorkQueue(context.clock)
        self._pods = Informer(context.reader, "v1", "pods")
        self._claims = Informer(context.reader, API_VERSION, "resourceclaims")
        self._templates = Informer(context.reader, API_VERSION, "resourceclaimtemplates")
        self._pods.index(_BY_CLAIM, _claims_of)
        self._pods.index(_BY_TEMPLATE, _templates_of)
        self._claims.index(OWNER_INDEX, owner_keys)
        self._deleted = SeenDeleted()
        self._events = EventRecorder(client, "resource_claim", context.clock)
        created = CreatedClaims(self._claims)
        self._pod_sync = PodSync(context, self._pods, self._claims, self._templates, created, self._events)
        self._claim_sync = ClaimSync(context, self._pods, self._claims, self._deleted)

    async def run(self) -> None:
        self._pods.add_handler(self._pod_changed)
        self._claims.add_handler(self._claim_changed)
        self._templates.add_handler(self._template_changed)
        await run_controller(
            self._context.log,
            (self._pods, self._claims, self._templates),
            self._queue,
            self._sync,
            workers=_WORKERS,
            recorder=self._events,
        )

    async def _sync(self, item: WorkItem) -> None:
        kind, namespace, name = item
        if kind == _POD:
            await self._pod_sync.sync(namespace, name)
        else:
            await self._claim_sync.sync(namespace, name)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        if pod is None or not (references.pod_claims(pod) or references.extended_claim(pod)):
            return
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if new is None:
            self._deleted.add(pod["metadata"]["uid"])
        if new is None or references.is_done(pod):
            for claim in references.known_claims(pod, extended=True):
                self._queue.add((_CLAIM, namespace, claim))
        # A deleted pod is looked at like any other: its sync finds nothing to do.
        if self._needs_work(pod):
            self._queue.add((_POD, namespace, name))

    def _needs_work(self, pod: Object) -> bool:
        """Whether the sync of a pod would have something to do.

        A pod that has completed is looked at as well (kubernetes/kubernetes#141274): it is made a consumer of its claim
        again and again, and at each of its changes a claim from its template is made, and removed.
        """
        if "deletionTimestamp" in pod["metadata"]:
            return False
        return any(self._claim_needs_work(pod, pod_claim) for pod_claim in references.pod_claims(pod))

    def _claim_needs_work(self, pod: Object, pod_claim: Object) -> bool:
        try:
            name, check_owner = references.claim_name(pod, pod_claim)
        except PodClaimError:
            return True
        if name is None:
            return False
        claim = self._claims.get(pod["metadata"]["namespace"], name)
        if claim is None:
            return pod_claim.get("resourceClaimTemplateName") is not None
        if check_owner and references.owner_problem(pod, claim):
            # Nothing can be done for the pod before that other claim is gone.
            return False
        return (
            bool(pod.get("spec", {}).get("nodeName"))
            and references.is_allocated(claim)
            and not references.is_reserved_for(pod, claim)
        )

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        claim = new if new is not None else old
        if claim is None:
            return
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if new is not None:
            self._queue.add((_CLAIM, namespace, name))
        for pod in self._pods.by_index(_BY_CLAIM, f"{namespace}/{name}"):
            self._pod_changed(pod, pod)

    def _template_changed(self, _old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        key = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
        for pod in self._pods.by_index(_BY_TEMPLATE, key):
            self._pod_changed(pod, pod)


def _claims_of(pod: Object) -> Iterator[str]:
    namespace = pod["metadata"]["namespace"]
    # Claims for extended resources are the scheduler's; their clean-up starts with a change of the pod or claim.
    for name in references.known_claims(pod, extended=False):
        yield f"{namespace}/{name}"


def _templates_of(pod: Object) -> Iterator[str]:
    namespace = pod["metadata"]["namespace"]
    for pod_claim in references.pod_claims(pod):
        if pod_claim.get("resourceClaimTemplateName") is not None:
            yield f"{namespace}/{pod_claim['resourceClaimTemplateName']}"
