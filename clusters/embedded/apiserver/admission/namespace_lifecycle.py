"""Nothing new in namespaces that are missing or going away (api-machinery section 5)."""

from __future__ import annotations

from typing import ClassVar, Final

from clusters.api_status import not_found
from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, DELETE, Request

_IMMORTAL: Final = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(Plugin):
    """404 for a missing namespace, 403 for a terminating one, and the basic namespaces cannot be deleted."""

    name: ClassVar[str] = "NamespaceLifecycle"

    def mutate(self, request: Request) -> None:
        """Check the namespace of a create, and the deletion of a namespace."""
        if request.operation == DELETE and request.is_for("namespaces") and request.name in _IMMORTAL:
            raise request.refuse("this namespace may not be deleted")
        if request.operation != CREATE or not request.namespace or request.kind == "Namespace":
            return
        # Asking about rights in a namespace that does not exist is fine.
        if (request.group, request.resource) == ("authorization.k8s.io", "localsubjectaccessreviews"):
            return
        namespace = self.context.reader.get("", "namespaces", "", request.namespace)
        if namespace is None:
            raise not_found("namespaces", "", request.namespace)
        if (namespace.get("status") or {}).get("phase") != "Terminating":
            return
        where = request.namespace
        error = request.refuse(
            f"unable to create new content in namespace {where} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {where} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error
