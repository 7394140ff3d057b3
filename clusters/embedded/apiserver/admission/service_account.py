"""Each pod runs as an existing service account (api-machinery section 20)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import ClassVar, Final

from clusters.api_status import ApiError
from clusters.chance import name_suffix
from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, Request
from clusters.embedded.apiserver.auth import pod_references
from clusters.embedded.apiserver.auth.text import quoted
from clusters.embedded.apiserver.storage import Object

_VOLUME: Final = "kube-api-access-"
_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN: Final = "serviceAccountToken"  # noqa: S105 - the name of a field
_NAMESPACE: Final = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
# 7 s more than an hour: old clients hold tokens of an hour for those of a year (source: serviceaccount.go upstream).
_PROJECTED: Final[Object] = {
    "defaultMode": 0o644,
    "sources": [
        {_TOKEN: {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"fieldRef": _NAMESPACE, "path": "namespace"}]}},
    ],
}


class ServiceAccount(Plugin):
    """Sets the service account `default`, adds its token and refuses a missing one; mirror pods must have none."""

    name: ClassVar[str] = "ServiceAccount"

    def mutate(self, request: Request) -> None:
        """Default the account of a new pod; what the account brings along is added."""
        if request.operation != CREATE or not request.is_for("pods"):
            return
        pod = request.new
        if pod_references.is_mirror(pod):
            return
        spec = pod.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self.context.reader.get("", "serviceaccounts", request.namespace, name)
        if account is None:
            raise self._missing(request, name)
        if _mounts_token(spec, account):
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]

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
            if any(_TOKEN in source for source in _projections(pod)):
                raise request.refuse("a mirror pod may not use ServiceAccountToken volume projections")
            return
        if self.context.reader.get("", "serviceaccounts", request.namespace, name) is None:
            raise self._missing(request, name)

    def _missing(self, request: Request, name: str) -> ApiError:
        return request.refuse(
            f"error looking up service account {request.namespace}/{name}: serviceaccount {quoted(name)} not found"
        )


def _projections(pod: Object) -> Iterator[Object]:
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        yield from (volume.get("projected") or {}).get("sources") or []


def _mounts_token(spec: Object, account: Object) -> bool:
    """What the pod says decides, then the account."""
    for holder in (spec, account):
        if holder.get("automountServiceAccountToken") is not None:
            return bool(holder["automountServiceAccountToken"])
    return True


def _mount_token(spec: Object) -> None:
    """Mount the token, the authority's certificate and the namespace where a container has nothing there."""
    volumes: list[Object] = spec.get("volumes") or []
    present = next((each["name"] for each in volumes if each.get("name", "").startswith(_VOLUME)), "")
    name = present or _VOLUME + name_suffix()
    mounted = False
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        mounts: list[Object] = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == _PATH for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": _PATH}]
            mounted = True
    if mounted and not present:
        spec["volumes"] = [*volumes, {"name": name, "projected": copy.deepcopy(_PROJECTED)}]
