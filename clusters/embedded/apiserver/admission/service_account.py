"""Each pod runs as an existing service account (api-machinery section 20)."""

from __future__ import annotations

from typing import ClassVar

from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, Request
from clusters.embedded.apiserver.auth import pod_references
from clusters.embedded.apiserver.auth.text import quoted


class ServiceAccount(Plugin):
    """Sets the service account `default` and refuses a missing one; mirror pods must have none.

    The token volume that a real server adds is left out: the simulated containers do not read it.
    """

    name: ClassVar[str] = "ServiceAccount"

    def mutate(self, request: Request) -> None:
        """Default the account of a new pod."""
        if request.operation != CREATE or not request.is_for("pods"):
            return
        pod = request.new
        if pod_references.is_mirror(pod):
            return
        spec = pod.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name

    def validate(self, request: Request) -> None:
        """Look the account up."""
        if request.operation != CREATE or not request.is_for("pods"):
            return
        pod = request.new
        name = (pod.get("spec") or {}).get("serviceAccountName", "")
        if pod_references.is_mirror(pod):
            if name:
                raise request.refuse("a mirror pod may not reference service accounts")
            if pod_references.secrets(pod):
                raise request.refuse("a mirror pod may not reference secrets")
            return
        if self.context.reader.get("", "serviceaccounts", request.namespace, name) is None:
            raise request.refuse(
                f"error looking up service account {request.namespace}/{name}: "
                f"serviceaccount {quoted(name)} not found"
            )
