"""What tests of the control plane have in common: claims allocated by hand, and short looks at claims and Pods."""

from __future__ import annotations

from typing import Any

from clusters.client import ClientError
from clusters.observation import Observation
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import Object
from conformance.model import Failed, check

# What every container has mounted, from folders of its own Pod.
_OF_THE_KUBELET = ("/dev/termination", "/etc/hosts", "/var/run/secrets/kubernetes.io/")
FINALIZER = "resource.kubernetes.io/delete-protection"


def allocate(bench: ClusterBench, claim: str, device: str, node: str) -> Object:
    """Allocate a claim by hand as a scheduler would, but for nobody: a device of the node's pool."""
    found = bench.get("ResourceClaim", claim)
    found["metadata"]["finalizers"] = [FINALIZER]
    found = bench.update(found)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {
        "request": found["spec"]["devices"]["requests"][0]["name"],
        "driver": bench.driver_name,
        "pool": node,
        "device": device,
    }
    found["status"] = {
        "allocation": {
            # A claim without it cannot be reserved later by kube-scheduler 1.37.
            "allocationTimestamp": found["metadata"]["creationTimestamp"],
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    }
    return bench.update(found, "status")


def consumers(bench: ClusterBench, claim: str) -> list[Object]:
    """The consumers of a claim."""
    status = (bench.find("ResourceClaim", claim) or {}).get("status") or {}
    return status.get("reservedFor") or []


def device_names(bench: ClusterBench, claim: str) -> list[str]:
    """The allocated devices of a claim without their pools."""
    return [entry.split("/")[1] for entry in bench.devices_of(claim)]


def scheduled_reason(bench: ClusterBench, pod: str) -> str:
    """The reason of a Pod's condition PodScheduled."""
    conditions = (bench.get("Pod", pod).get("status") or {}).get("conditions") or []
    return next((str(entry.get("reason")) for entry in conditions if entry["type"] == "PodScheduled"), "")


def untouched(bench: ClusterBench, pod: str) -> bool:
    """Whether a Pod waits without node, conditions and events: the scheduler has not yet tried it."""
    found = bench.get("Pod", pod)
    status = found.get("status") or {}
    waits = status.get("phase") == "Pending" and not found["spec"].get("nodeName")
    return waits and not status.get("conditions") and not bench.events(pod)


def await_slices(bench: ClusterBench) -> None:
    """Wait until the scheduler knows every slice: it learns of them in order, and then of the one that is made here."""
    driver = f"last.{bench.driver_name}"
    bench.publish("last", driver=driver)
    name = bench.make_class(f'device.driver == "{driver}"', name="last")
    bench.make_claim("last", manifests.request(name))
    bench.make_pod("last", claims={"device": "last"})
    bench.wait_scheduled("last")


def scheduled_devices(bench: ClusterBench, name: str = "pod", **parts: Any) -> list[str]:
    """Make a Pod with the claim `claim` (or others in `parts`), wait for its node; the names of the claim's devices."""
    parts.setdefault("claims", {"device": "claim"})
    bench.make_pod(name, **parts)
    bench.wait_scheduled(name)
    claim = next(iter(parts["claims"].values()))
    return [entry.split("/")[1] for entry in bench.devices_of(claim)]


def refused(bench: ClusterBench, spec: Object, *texts: str) -> None:
    """A claim with this spec must be refused as invalid, with these texts."""
    try:
        bench.create(manifests.claim("claim", spec))
    except ClientError as error:
        found = error.code == 422 and all(text in error.message for text in texts)
        check(found, f"422 with {', '.join(texts)}", error)
        return
    raise Failed(f"422 with {', '.join(texts)}", "the claim was accepted")


def view(seen: Observation) -> tuple[Any, ...]:
    """What a container sees, without what is of its own Pod: device nodes, environment, sources of mounts."""
    nodes = sorted((node.path, node.major, node.minor) for node in seen.devices)
    environment = {key: value for key, value in seen.environment.items() if key != "HOSTNAME"}
    mounts = sorted(
        mount.source for mount in seen.mounts if not mount.destination.startswith(_OF_THE_KUBELET)
    )
    return nodes, environment, mounts
