"""Names of the objects that a pod needs, all in the pod's namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"


def is_mirror(pod: dict[str, Any]) -> bool:
    """Whether the pod mirrors a static pod of a node."""
    return MIRROR_ANNOTATION in ((pod.get("metadata") or {}).get("annotations") or {})


def secrets(pod: dict[str, Any]) -> set[str]:
    """Secrets of image pulls, environments and volumes."""
    spec = pod.get("spec") or {}
    names = {item.get("name", "") for item in spec.get("imagePullSecrets") or []}
    names |= set(_environment(spec, "secretRef", "secretKeyRef"))
    for volume in spec.get("volumes") or []:
        names.add((volume.get("secret") or {}).get("secretName", ""))
        for source in (volume.get("projected") or {}).get("sources") or []:
            names.add((source.get("secret") or {}).get("name", ""))
        for kind in ("csi", "rbd", "cephfs", "flexVolume", "iscsi", "scaleIO", "storageos"):
            inline = volume.get(kind) or {}
            names.add((inline.get("secretRef") or {}).get("name", ""))
            names.add((inline.get("nodePublishSecretRef") or {}).get("name", ""))
        names.add((volume.get("azureFile") or {}).get("secretName", ""))
    return names - {""}


def config_maps(pod: dict[str, Any]) -> set[str]:
    """ConfigMaps of environments and volumes."""
    spec = pod.get("spec") or {}
    names = set(_environment(spec, "configMapRef", "configMapKeyRef"))
    for volume in spec.get("volumes") or []:
        names.add((volume.get("configMap") or {}).get("name", ""))
        for source in (volume.get("projected") or {}).get("sources") or []:
            names.add((source.get("configMap") or {}).get("name", ""))
    return names - {""}


def service_accounts(pod: dict[str, Any]) -> set[str]:
    """The service account the pod runs as."""
    return {(pod.get("spec") or {}).get("serviceAccountName", "")} - {""}


def resource_claims(pod: dict[str, Any]) -> set[str]:
    """Claims named in the spec, generated from its templates (status), or made for extended resources."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    generated = {
        item.get("name", ""): item.get("resourceClaimName") or ""
        for item in status.get("resourceClaimStatuses") or []
    }
    names = {(status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""}
    for claim in spec.get("resourceClaims") or []:
        names.add(claim.get("resourceClaimName") or generated.get(claim.get("name", ""), ""))
    return names - {""}


def api_object(pod: dict[str, Any]) -> str | None:
    """The first kind of API object that the pod refers to (plural resource name), None if there is none."""
    spec = pod.get("spec") or {}
    if service_accounts(pod):
        return "serviceaccounts"
    if secrets(pod):
        return "secrets"
    if config_maps(pod):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or []:
        if volume.get("persistentVolumeClaim") or volume.get("ephemeral"):
            return "persistentvolumeclaims"
        for source in (volume.get("projected") or {}).get("sources") or []:
            for kind, resource in (
                ("clusterTrustBundle", "clustertrustbundles"),
                ("serviceAccountToken", "serviceaccounts"),
                ("podCertificate", "podcertificates"),
            ):
                if source.get(kind):
                    return resource
    return None


def _environment(spec: dict[str, Any], whole: str, key: str) -> Iterator[str]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or []:
            for source in container.get("envFrom") or []:
                yield (source.get(whole) or {}).get("name", "")
            for variable in container.get("env") or []:
                yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name", "")
