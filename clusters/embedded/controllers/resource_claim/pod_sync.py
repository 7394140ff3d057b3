"""What a pod needs: its claims made, their names in its status, its reservations (components section 3.2)."""

from __future__ import annotations

from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import SyncError
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.controllers.resource_claim.created import CreatedClaims
from clusters.embedded.controllers.resource_claim.references import NotCreatedError, PodClaimError

FIELD_MANAGER: Final = "ResourceClaimController"
_RESOURCE: Final = ("resource.k8s.io/v1", "resourceclaims")


class PodSync:
    """Brings one pod's claims into being."""

    def __init__(
        self,
        context: Context,
        pods: Informer,
        claims: Informer,
        templates: Informer,
        created: CreatedClaims,
        events: EventRecorder,
    ) -> None:
        self._client, self._gates, self._log = context.client, context.gates, context.log
        self._pods, self._claims, self._templates = pods, claims, templates
        self._created = created
        self._events = events

    async def sync(self, namespace: str, name: str) -> None:
        """Handle a pod. Raises SyncError or ClientError when it has to be tried again."""
        pod = self._pods.get(namespace, name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        new: dict[str, str] = {}
        for pod_claim in references.pod_claims(pod):
            try:
                claim = await self._ensure(pod, pod_claim)
            except (SyncError, ClientError) as error:
                why = f"PodResourceClaim {pod_claim['name']}: {_text(error)}"
                self._events.event(pod, "Warning", "FailedResourceClaimCreation", why)
                raise SyncError(f"pod {namespace}/{name}, {why}") from None
            if claim:
                new[pod_claim["name"]] = claim
        if new:
            await self._record(pod, new)
        if pod["spec"].get("nodeName"):
            await self._reserve_all(pod)

    async def _ensure(self, pod: Object, pod_claim: Object) -> str:
        """Make or find the claim of a template; returns its name when the pod's status lacks it."""
        namespace = pod["metadata"]["namespace"]
        try:
            name, check_owner = references.claim_name(pod, pod_claim)
        except NotCreatedError:
            pass
        except PodClaimError as error:
            raise SyncError(f"checking for claim before creating it: {error}") from None
        else:
            if name is None:
                return ""
            if name and await self._exists(pod, name, check_owner=check_owner):
                return ""
        template_name = pod_claim.get("resourceClaimTemplateName")
        if template_name is None:
            return ""
        # A claim that was made before a crash or a failed write of the status is taken, not made twice.
        for claim in self._created.owned_by(namespace, pod["metadata"]["uid"]):
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(references.POD_CLAIM_ANNOTATION) == pod_claim["name"]:
                return str(claim["metadata"]["name"])
        return await self._create(pod, pod_claim, template_name)

    async def _exists(self, pod: Object, name: str, *, check_owner: bool) -> bool:
        """Whether the claim in the pod's status is there; a missing one may have been deleted by accident."""
        namespace = pod["metadata"]["namespace"]
        claim = self._created.get(namespace, name)
        if claim is None:
            try:
                claim = await self._client.find(*_RESOURCE, name, namespace)
            except ClientError as error:
                raise SyncError(f"checking claim existence: {_text(error)}") from None
        if claim is None:
            return False
        problem = references.owner_problem(pod, claim) if check_owner else ""
        if problem:
            self._log.info("%s: a new claim is made", problem)
        return not problem

    async def _create(self, pod: Object, pod_claim: Object, template_name: str) -> str:
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(namespace, template_name)
        if template is None:
            raise SyncError(
                f'resource claim template "{template_name}": '
                f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            )
        requests = (template["spec"].get("spec") or {}).get("devices", {}).get("requests") or []
        if not self._gates.get("DRAAdminAccess", True) and any(
            (request.get("exactly") or {}).get("adminAccess") for request in requests
        ):
            raise SyncError("admin access is requested, but the feature is disabled")
        if not self._gates.get("DRAPrioritizedList", True) and any(
            request.get("firstAvailable") for request in requests
        ):
            raise SyncError(
                "template includes a prioritized list of subrequests, but the feature is disabled"
            )
        body = references.claim_from_template(pod, pod_claim, template)
        try:
            claim = await self._client.create(*_RESOURCE, body, namespace)
        except ClientError as error:
            # The name in upstream's text is that of the request, which has none.
            raise SyncError(f"create ResourceClaim : {_text(error)}") from None
        self._created.add(claim)
        self._log.info("created claim %s/%s", namespace, claim["metadata"]["name"])
        return str(claim["metadata"]["name"])

    async def _record(self, pod: Object, new: dict[str, str]) -> None:
        metadata = pod["metadata"]
        known = {
            status["name"]: status["resourceClaimName"]
            for status in pod.get("status", {}).get("resourceClaimStatuses") or []
            if status.get("resourceClaimName") is not None
        }
        statuses = [
            {"name": name, "resourceClaimName": claim} for name, claim in sorted({**known, **new}.items())
        ]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "status": {"resourceClaimStatuses": statuses},
        }
        await self._client.apply("v1", "pods", body, field_manager=FIELD_MANAGER, subresource="status")

    async def _reserve_all(self, pod: Object) -> None:
        """Reserve allocated claims for a pod that got its node from somebody else than the scheduler."""
        for pod_claim in references.pod_claims(pod):
            try:
                name, check_owner = references.claim_name(pod, pod_claim)
            except PodClaimError as error:
                raise SyncError(str(error)) from None
            if name is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], name)
            if claim is None:
                return
            problem = references.owner_problem(pod, claim) if check_owner else ""
            if problem:
                raise SyncError(problem)
            if references.is_allocated(claim) and not references.is_reserved_for(pod, claim):
                await self._reserve(pod, claim)

    async def _reserve(self, pod: Object, claim: Object) -> None:
        metadata = pod["metadata"]
        consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        consumers = [*references.reserved_for(claim), consumer]
        body = {**claim, "status": {**claim["status"], "reservedFor": consumers}}
        await self._client.update(*_RESOURCE, body, "status")


def _text(error: SyncError | ClientError) -> str:
    return error.message if isinstance(error, ClientError) else str(error)
