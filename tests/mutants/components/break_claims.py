"""Mutants of the resource claim controller: claims from templates."""

from __future__ import annotations

from typing import Any

from clusters.client import ClientError
from clusters.embedded.components.workqueue import SyncError
from clusters.embedded.controllers.resource_claim import controller, pod_sync, references
from clusters.embedded.controllers.resource_claim.created import CreatedClaims
from clusters.embedded.controllers.resource_claim.pod_sync import PodSync
from tests.mutants.registry import component_mutant

_CREATE = PodSync._create


@component_mutant("nameless-claims")
def nameless_claims() -> None:
    """Claims are named after the Pod alone."""
    references.generate_name = lambda pod, claim: f"{pod}-"


def _change_claims(change: Any) -> None:
    real = references.claim_from_template

    def made(pod: Any, pod_claim: Any, template: Any) -> Any:
        claim = real(pod, pod_claim, template)
        change(claim, template)
        return claim

    references.claim_from_template = made


@component_mutant("owner-without-control")
def owner_without_control() -> None:
    """The Pod owns its claim, but does not control it."""
    _change_claims(lambda claim, template: claim["metadata"]["ownerReferences"][0].pop("controller"))


@component_mutant("drops-template-metadata")
def drops_template_metadata() -> None:
    """Labels of a template are not copied."""
    _change_claims(lambda claim, template: claim["metadata"].pop("labels", None))


@component_mutant("uncut-claim-names")
def uncut_claim_names() -> None:
    """Names of Pod and claim are not cut, so that the server cuts away that of the claim."""
    references.generate_name = lambda pod, claim: f"{pod}-{claim}-"


class _Silent:
    def event(self, *arguments: Any) -> None:
        """Tell nobody."""


@component_mutant("silent-about-templates")
def silent_about_templates() -> None:
    """A claim that cannot be made is retried without a word."""
    real = PodSync.sync

    async def sync(self: PodSync, namespace: str, name: str) -> None:
        self._events = _Silent()  # type: ignore[assignment]
        await real(self, namespace, name)

    PodSync.sync = sync  # type: ignore[method-assign]


@component_mutant("gives-up-on-templates")
def gives_up_on_templates() -> None:
    """A missing template is taken for final: no retry, and no look when one comes."""
    real = PodSync.sync

    async def sync(self: PodSync, namespace: str, name: str) -> None:
        try:
            await real(self, namespace, name)
        except SyncError:
            return

    PodSync.sync = sync  # type: ignore[method-assign]
    controller._Life._template_changed = lambda self, old, new: None  # type: ignore[method-assign]


@component_mutant("makes-claims-twice")
def makes_claims_twice() -> None:
    """Claims that were made before, but not recorded, are not looked for."""
    CreatedClaims.owned_by = lambda self, namespace, uid: []  # type: ignore[method-assign]


@component_mutant("forgets-known-claims")
def forgets_known_claims() -> None:
    """Only the names of new claims are written into the Pod's status."""
    real = PodSync._record

    async def record(self: PodSync, pod: Any, new: dict[str, str]) -> None:
        status = {**pod.get("status", {}), "resourceClaimStatuses": []}
        await real(self, {**pod, "status": status}, new)

    PodSync._record = record  # type: ignore[method-assign]


@component_mutant("borrows-templates")
def borrows_templates() -> None:
    """Templates are looked up by their name alone."""

    async def create(self: PodSync, pod: Any, pod_claim: Any, template_name: str) -> str:
        for template in self._templates.items():
            if template["metadata"]["name"] == template_name:
                body = references.claim_from_template(pod, pod_claim, template)
                namespace = pod["metadata"]["namespace"]
                claim = await self._client.create(*pod_sync._RESOURCE, body, namespace)
                return str(claim["metadata"]["name"])
        return await _CREATE(self, pod, pod_claim, template_name)

    PodSync._create = create  # type: ignore[method-assign]


@component_mutant("shares-generated-claims")
def shares_generated_claims() -> None:
    """A claim that is there for the same claim of another Pod will do."""

    def owned(self: CreatedClaims, namespace: str, uid: str) -> list[Any]:
        found = [claim for claim in self._informer.items() if claim["metadata"]["namespace"] == namespace]
        return found + list(self._created.values())

    CreatedClaims.owned_by = owned  # type: ignore[method-assign]


@component_mutant("claims-for-templates")
def claims_for_templates() -> None:
    """A claim is made as soon as there is a template."""
    real = controller._Life._template_changed

    def changed(self: Any, old: Any, new: Any) -> None:
        real(self, old, new)
        if new is not None:
            metadata = new["metadata"]
            self._queue.add(("template", metadata["namespace"], metadata["name"]))

    sync = controller._Life._sync

    async def sync_item(self: Any, item: tuple[str, str, str]) -> None:
        kind, namespace, name = item
        if kind != "template":
            await sync(self, item)
            return
        template = self._templates.get(namespace, name)
        body = {
            "apiVersion": controller.API_VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": template["spec"]["spec"],
        }
        try:
            await self._context.client.create(controller.API_VERSION, "resourceclaims", body, namespace)
        except ClientError:
            return

    controller._Life._template_changed = changed  # type: ignore[method-assign]
    controller._Life._sync = sync_item  # type: ignore[method-assign]
