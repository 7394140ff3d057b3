"""The resources that the server knows: a table of facts (api-machinery sections 2, 7, 9, 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.embedded.apiserver.resources import (
    NO_COLLECTION,
    STATUS_VERBS,
    Deprecation,
    Getter,
    Resource,
    Subresource,
)
from clusters.embedded.apiserver.storage import ResourceKey


def text_at(*path: str) -> Getter:
    """A getter of a nested value as a selector compares it; absent is an empty string."""

    def get(obj: Mapping[str, Any]) -> str:
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return get


def _bool_at(*path: str) -> Getter:
    get = text_at(*path)
    return lambda obj: get(obj) or "false"


def _number_at(*path: str) -> Getter:
    get = text_at(*path)
    return lambda obj: get(obj) or "0"


def _pod_ip(obj: Mapping[str, Any]) -> str:
    ips = obj.get("status", {}).get("podIPs") or [{}]
    return str(ips[0].get("ip", ""))


def _event_source(obj: Mapping[str, Any]) -> str:
    return (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""


_NAME: Final = {"metadata.name": text_at("metadata", "name")}
_META: Final = {**_NAME, "metadata.namespace": text_at("metadata", "namespace")}
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_KEY: Final = ResourceKey("", "events")
_STATUS: Final = Subresource("status", STATUS_VERBS)
_SCALE: Final = Subresource("scale", STATUS_VERBS, "autoscaling", "v1", "Scale")


def _create_only(group: str, plural: str, kind: str, namespaced: bool = False) -> Resource:
    return Resource(group, plural, kind, namespaced, verbs=("create",))


def _rbac(plural: str, kind: str, namespaced: bool) -> Resource:
    return Resource(
        "rbac.authorization.k8s.io", plural, kind, namespaced, create_on_update=True, fields=_META
    )


_POD = Resource(
    "",
    "pods",
    "Pod",
    True,
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", ("create", "get"), "", "v1", "PodAttachOptions"),
        Subresource("binding", ("create",), "", "v1", "Binding"),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
        Subresource("exec", ("create", "get"), "", "v1", "PodExecOptions"),
        Subresource("log", ("get",)),
        Subresource("portforward", ("create", "get"), "", "v1", "PodPortForwardOptions"),
        _STATUS,
    ),
    delete_returns_object=frozenset({"v1"}),
    fields={
        **_META,
        "spec.nodeName": text_at("spec", "nodeName"),
        "spec.restartPolicy": text_at("spec", "restartPolicy"),
        "spec.schedulerName": text_at("spec", "schedulerName"),
        "spec.serviceAccountName": text_at("spec", "serviceAccountName"),
        "spec.hostNetwork": _bool_at("spec", "hostNetwork"),
        "status.phase": text_at("status", "phase"),
        "status.podIP": _pod_ip,
        "status.podIPs": _pod_ip,
        "status.nominatedNodeName": text_at("status", "nominatedNodeName"),
    },
    field_aliases={"spec.host": "spec.nodeName"},
    indexed=("spec.nodeName",),
    field_error="plain",
)

_CORE: Final = (
    Resource("", "bindings", "Binding", True, verbs=("create",)),
    Resource("", "configmaps", "ConfigMap", True, short_names=("cm",), fields=_META),
    Resource(
        "",
        "events",
        "Event",
        True,
        short_names=("ev",),
        create_on_update=True,
        fields={
            **_META,
            **{f"involvedObject.{name}": text_at("involvedObject", name) for name in _INVOLVED},
            "reason": text_at("reason"),
            "reportingComponent": text_at("reportingComponent"),
            "source": _event_source,
            "type": text_at("type"),
        },
        field_error="plain",
    ),
    Resource(
        "",
        "namespaces",
        "Namespace",
        False,
        verbs=NO_COLLECTION,
        short_names=("ns",),
        subresources=(Subresource("finalize", ("update",)), _STATUS),
        delete_returns_object=frozenset({"v1"}),
        fields={**_NAME, "status.phase": text_at("status", "phase"), "name": text_at("metadata", "name")},
        field_error="plain",
    ),
    Resource(
        "",
        "nodes",
        "Node",
        False,
        short_names=("no",),
        subresources=(_STATUS,),
        fields={**_NAME, "spec.unschedulable": _bool_at("spec", "unschedulable")},
        field_error="plain",
        indexed=("metadata.name",),
    ),
    _POD,
    Resource(
        "",
        "resourcequotas",
        "ResourceQuota",
        True,
        short_names=("quota",),
        subresources=(_STATUS,),
        delete_returns_object=frozenset({"v1"}),
        fields=_META,
    ),
    Resource("", "secrets", "Secret", True, fields={**_META, "type": text_at("type")}, field_error="plain"),
    Resource(
        "",
        "serviceaccounts",
        "ServiceAccount",
        True,
        short_names=("sa",),
        subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
        delete_returns_object=frozenset({"v1"}),
        fields=_META,
    ),
)

_SERVICES: Final = Resource(
    "",
    "services",
    "Service",
    True,
    short_names=("svc",),
    categories=("all",),
    subresources=(_STATUS,),
    create_on_update=True,
    delete_returns_object=frozenset({"v1"}),
    fields={**_META, "spec.clusterIP": text_at("spec", "clusterIP"), "spec.type": text_at("spec", "type")},
    field_error="plain",
)

_EVENTS: Final = (
    Resource(
        "events.k8s.io",
        "events",
        "Event",
        True,
        short_names=("ev",),
        create_on_update=True,
        fields={
            **_META,
            **{f"regarding.{name}": text_at("involvedObject", name) for name in _INVOLVED},
            "reason": text_at("reason"),
            "reportingController": text_at("reportingComponent"),
            "type": text_at("type"),
        },
        field_error="plain",
        storage=_EVENT_KEY,
    ),
)


def _workload(group: str, plural: str, kind: str, *short_names: str, **more: Any) -> Resource:
    """A kind of apps or batch that makes Pods."""
    return Resource(
        group,
        plural,
        kind,
        True,
        short_names=short_names,
        categories=("all",),
        **{"subresources": (_STATUS,), "fields": _META, **more},
    )


_SCALED: Final = (_SCALE, _STATUS)
_APPS: Final = (
    Resource("apps", "controllerrevisions", "ControllerRevision", True, fields=_META),
    _workload("apps", "daemonsets", "DaemonSet", "ds"),
    _workload("apps", "deployments", "Deployment", "deploy", subresources=_SCALED),
    _workload("apps", "replicasets", "ReplicaSet", "rs", subresources=_SCALED),
    _workload("apps", "statefulsets", "StatefulSet", "sts", subresources=_SCALED),
)
_BATCH: Final = (
    _workload("batch", "cronjobs", "CronJob", "cj"),
    _workload(
        "batch",
        "jobs",
        "Job",
        orphans=True,
        fields={**_META, "status.successful": _number_at("status", "succeeded")},
        field_error="job",
    ),
)
_POLICY: Final = (
    Resource(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        short_names=("pdb",),
        subresources=(_STATUS,),
        unconditional=frozenset(),
        fields=_META,
    ),
)

_DRA: Final = "resource.k8s.io"
_DRA_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
_DRA_OLD: Final = {"v1beta2": Deprecation("1.36", "1.39"), "v1beta1": Deprecation("1.35", "1.38")}


def _dra(plural: str, kind: str, namespaced: bool, status: bool = False, **more: Any) -> Resource:
    return Resource(
        _DRA,
        plural,
        kind,
        namespaced,
        versions=_DRA_VERSIONS,
        subresources=(_STATUS,) if status else (),
        delete_returns_object=frozenset(_DRA_VERSIONS),
        deprecated=_DRA_OLD,
        **{"fields": _META, **more},
    )


_RESOURCE: Final = (
    _dra("deviceclasses", "DeviceClass", False),
    Resource(
        _DRA,
        "devicetaintrules",
        "DeviceTaintRule",
        False,
        versions=("v1", "v1beta2", "v1alpha3"),
        subresources=(_STATUS,),
        unconditional=frozenset({"v1beta2", "v1alpha3"}),
        delete_returns_object=frozenset({"v1beta2", "v1alpha3"}),
        fields=_META,
        deprecated={"v1alpha3": Deprecation("1.36", "1.39")},
    ),
    _dra("resourceclaims", "ResourceClaim", True, status=True),
    _dra("resourceclaimtemplates", "ResourceClaimTemplate", True),
    Resource(
        _DRA,
        "resourcepoolstatusrequests",
        "ResourcePoolStatusRequest",
        False,
        versions=("v1alpha3",),
        subresources=(_STATUS,),
        unconditional=frozenset(),
        delete_returns_object=frozenset({"v1alpha3"}),
        fields=_META,
        storage_version="v1alpha3",
    ),
    _dra(
        "resourceslices",
        "ResourceSlice",
        False,
        fields={
            **_NAME,
            "spec.nodeName": text_at("spec", "nodeName"),
            "spec.driver": text_at("spec", "driver"),
            "spec.pool.name": text_at("spec", "pool", "name"),
        },
        field_error="slice",
        indexed=("spec.nodeName",),
    ),
)

_ADMISSION: Final = "admissionregistration.k8s.io"
_POLICIES: Final = (
    Resource(
        _ADMISSION,
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        False,
        categories=("api-extensions",),
        unconditional=frozenset(),
        fields=_NAME,
    ),
    Resource(
        _ADMISSION,
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
        False,
        categories=("api-extensions",),
        unconditional=frozenset(),
        fields=_NAME,
    ),
    Resource(
        _ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        False,
        categories=("api-extensions",),
        subresources=(_STATUS,),
        unconditional=frozenset(),
        fields=_NAME,
    ),
    Resource(
        _ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        False,
        categories=("api-extensions",),
        unconditional=frozenset(),
        fields=_NAME,
    ),
)

_AUTHZ: Final = "authorization.k8s.io"
# In the order in which discovery lists the groups.
TABLE: Final = (
    *_CORE,
    _SERVICES,
    *_APPS,
    *_EVENTS,
    _create_only("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _create_only("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _create_only(_AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    _create_only(_AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _create_only(_AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _create_only(_AUTHZ, "subjectaccessreviews", "SubjectAccessReview"),
    *_BATCH,
    *_POLICY,
    _rbac("clusterrolebindings", "ClusterRoleBinding", False),
    _rbac("clusterroles", "ClusterRole", False),
    _rbac("rolebindings", "RoleBinding", True),
    _rbac("roles", "Role", True),
    Resource(
        "coordination.k8s.io",
        "leases",
        "Lease",
        True,
        create_on_update=True,
        unconditional=frozenset(),
        fields=_META,
    ),
    *_POLICIES,
    *_RESOURCE,
)
