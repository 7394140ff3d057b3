"""The service account controller: every namespace has a service account `default`."""

from __future__ import annotations

from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.run import run_controller

_NAME: Final = "default"


class ServiceAccountController:
    """Creates the service account `default` in active namespaces, again after its deletion."""

    name = "serviceaccount-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        client = context.client
        queue: WorkQueue[str] = WorkQueue(context.clock)
        accounts = Informer(context.reader, "v1", "serviceaccounts")
        namespaces = Informer(context.reader, "v1", "namespaces")

        def account_changed(old: Object | None, new: Object | None) -> None:
            if new is None and old is not None:
                queue.add(old["metadata"]["namespace"])

        def namespace_changed(_old: Object | None, new: Object | None) -> None:
            if new is not None:
                queue.add(new["metadata"]["name"])

        async def sync(name: str) -> None:
            namespace = namespaces.get("", name)
            if namespace is None or namespace.get("status", {}).get("phase") != "Active":
                return
            if accounts.get(name, _NAME) is not None:
                return
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _NAME}}
            try:
                await client.create("v1", "serviceaccounts", body, name)
            except ClientError as error:
                if error.reason != "AlreadyExists" and not is_terminating(error):
                    raise

        accounts.add_handler(account_changed)
        namespaces.add_handler(namespace_changed)
        await run_controller(context.log, (accounts, namespaces), queue, sync)


def is_terminating(error: ClientError) -> bool:
    """Whether a creation was refused because its namespace is being deleted."""
    causes = (error.body.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
