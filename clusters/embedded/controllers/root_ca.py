"""The root CA publisher: every namespace has the certificate authority of the API server in a config map."""

from __future__ import annotations

from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.run import run_controller
from clusters.embedded.controllers.service_account import is_terminating

CONFIG_MAP: Final = "kube-root-ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
    "Kubernetes clusters."
)


class RootCaPublisher:
    """Keeps the config map `kube-root-ca.crt` in all namespaces, and repairs it."""

    name = "root-ca-certificate-publisher-controller"

    def __init__(self, ca_pem: str) -> None:
        """`ca_pem` is the certificate authority in PEM."""
        self._data = {"ca.crt": ca_pem}

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        client = context.client
        queue: WorkQueue[str] = WorkQueue(context.clock)
        # A selector, as only config maps of this name matter.
        maps = Informer(context.reader, "v1", "configmaps", field_selector=f"metadata.name={CONFIG_MAP}")
        namespaces = Informer(context.reader, "v1", "namespaces")

        def map_changed(old: Object | None, new: Object | None) -> None:
            obj = new if new is not None else old
            if obj is not None:
                queue.add(obj["metadata"]["namespace"])

        def namespace_changed(old: Object | None, new: Object | None) -> None:
            if new is not None and (old is None or new.get("status", {}).get("phase") == "Active"):
                queue.add(new["metadata"]["name"])

        async def sync(namespace: str) -> None:
            present = maps.get(namespace, CONFIG_MAP)
            if present is None:
                await self._create(context, namespace)
                return
            annotations = present["metadata"].get("annotations") or {}
            if present.get("data") == self._data and annotations.get(_ANNOTATION):
                return
            metadata = {**present["metadata"], "annotations": {**annotations, _ANNOTATION: _DESCRIPTION}}
            await client.update("v1", "configmaps", {**present, "metadata": metadata, "data": self._data})

        maps.add_handler(map_changed)
        namespaces.add_handler(namespace_changed)
        await run_controller(context.log, (maps, namespaces), queue, sync)

    async def _create(self, context: Context, namespace: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "annotations": {_ANNOTATION: _DESCRIPTION}},
            "data": self._data,
        }
        try:
            await context.client.create("v1", "configmaps", body, namespace)
        except ClientError as error:
            if error.code != 404 and not is_terminating(error):
                raise
