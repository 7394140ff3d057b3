"""Whether containers of a user's cluster tell what they see: a Pod of the kit, run before everything else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from clusters.client import ClientError
from clusters.observation import ObservationError, parse_observation

if TYPE_CHECKING:
    from clusters.existing.cluster import ExistingCluster

_SECONDS: Final = 60.0
_POLL: Final = 0.2
_SAY_AFTER: Final = 2.0
_ACCOUNT_SECONDS: Final = 30.0
_POD: Final = "probe"
# Of the reasons for which a container waits, those that time alone does not mend.
_FINAL: Final = (
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "CrashLoopBackOff",
)


def probe_containers(cluster: ExistingCluster, patience: float) -> str:
    """Run `probe` in a container; why nothing can be told of containers, or "". Raises ClientError."""
    client, settings = cluster.client(), cluster.settings
    namespace = f"{settings.prefix}probe-{cluster.run}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    client.create("v1", "namespaces", settings.shaped(body))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _POD, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "", "command": ["probe"]}],
        },
    }
    try:
        deadline = time.monotonic() + _ACCOUNT_SECONDS * patience
        while client.find("v1", "serviceaccounts", "default", namespace) is None:
            if time.monotonic() > deadline:
                return f"namespace {namespace} got no default service account, so that it can have no Pods"
            time.sleep(_POLL)
        cluster.prepare_namespace(namespace)
        try:
            client.create("v1", "pods", settings.shaped(pod))
        except ClientError as error:
            return f"the cluster refuses Pods of the kit: {error.message}"
        return _watch(cluster, namespace, _SECONDS * patience)
    finally:
        client.delete("v1", "namespaces", namespace)


def _watch(cluster: ExistingCluster, namespace: str, seconds: float) -> str:
    client, image = cluster.client(), cluster.settings.image
    begin = time.monotonic()
    problem, said = "", False
    while time.monotonic() - begin < seconds:
        pod = client.get("v1", "pods", _POD, namespace)
        status: Mapping[str, Any] = pod.get("status") or {}
        if status.get("containerStatuses"):
            state = status["containerStatuses"][0].get("state") or {}
            waiting = state.get("waiting") or {}
            if waiting.get("reason") in _FINAL:
                return _without(image, f"{waiting['reason']}: {waiting.get('message', '')}")
            if "running" in state or "terminated" in state:
                try:
                    parse_observation(client.log(namespace, _POD), f'"probe" in image {image}')
                    return ""
                except (ObservationError, ClientError) as error:
                    problem = str(error)
                if "terminated" in state:
                    ended = state["terminated"]
                    return _without(image, f"{ended.get('reason', '')} {ended.get('message', '')}: {problem}")
        problem = problem or _conditions(status)
        if not said and time.monotonic() - begin > _SAY_AFTER:
            said = True
            cluster.progress(f"waiting for a first Pod with image {image}")
        time.sleep(_POLL)
    return _without(image, f"not within {seconds:g} s: {problem or 'the Pod is ' + str(status.get('phase'))}")


def _conditions(status: Mapping[str, Any]) -> str:
    return "; ".join(
        str(one["message"])
        for one in status.get("conditions") or []
        if one["status"] != "True" and one.get("message")
    )


def _without(image: str, why: str) -> str:
    text = " ".join(why.split())
    return (
        f"containers of image {image} do not run the kit's probe ({text}); --probe-image names one that does"
    )
