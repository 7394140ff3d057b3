"""The resources that the server knows: a table of facts (api-machinery sections 2, 7, 9, 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from clusters.embedded.apiserver.status import ApiError, bad_request
from clusters.embedded.apiserver.storage import ResourceKey

Getter = Callable[[Mapping[str, Any]], str]

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
NO_COLLECTION: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")


class Deprecation(NamedTuple):
    """Since when a version is deprecated and from when it is gone, as `1.35`."""

    since: str
    gone: str


@dataclass(frozen=True)
class Subresource:
    """A path below an object. `kind` with its group and version when it is not the parent's own."""

    name: str
    verbs: tuple[str, ...]
    group: str | None = None
    version: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Resource:
    """One resource of one API group.

    `versions` in order of preference; `unconditional` are the versions in which a PUT without resourceVersion is
    allowed; `delete_returns_object` the versions whose DELETE answers with the object instead of a Status.
    """

    group: str
    plural: str
    kind: str
    namespaced: bool
    versions: tuple[str, ...] = ("v1",)
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    create_on_update: bool = False
    unconditional: frozenset[str] | None = None
    delete_returns_object: frozenset[str] = frozenset()
    fields: Mapping[str, Getter] = field(default_factory=dict)
    field_aliases: Mapping[str, str] = field(default_factory=dict)
    field_error: str = "known"
    storage: ResourceKey | None = None
    storage_version: str = "v1"
    deprecated: Mapping[str, Deprecation] = field(default_factory=dict)

    @property
    def key(self) -> ResourceKey:
        """Where its objects are stored (events of both groups share one place)."""
        return self.storage or ResourceKey(self.group, self.plural)

    @property
    def singular(self) -> str:
        """The singular name of discovery."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """`PodList`."""
        return f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """`resourceslices.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def allows_unconditional(self, version: str) -> bool:
        """Whether PUT may leave out the resourceVersion."""
        return self.unconditional is None or version in self.unconditional

    def subresource(self, name: str) -> Subresource | None:
        """The subresource with that name."""
        return next((sub for sub in self.subresources if sub.name == name), None)

    def field_getter(self, label: str, version: str) -> tuple[str, Getter]:
        """Canonical name and getter of a field selector key; raises ApiError 400 with the kind's own wording."""
        name = self.field_aliases.get(label, label)
        if name in self.fields:
            return name, self.fields[name]
        if self.field_error == "plain":
            raise bad_request(f"field label not supported: {label}")
        if self.field_error == "slice":
            kind = f"resource.k8s.io/{version}, Kind={self.kind}"
            raise bad_request(f"field label not supported for {kind}: {label}")
        raise bad_request(
            f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )


class Served(NamedTuple):
    """A resource in one version, as a path names it."""

    resource: Resource
    version: str

    @property
    def api_version(self) -> str:
        """`v1` or `resource.k8s.io/v1`."""
        return f"{self.resource.group}/{self.version}" if self.resource.group else self.version


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
        Subresource("binding", ("create",), "", "v1", "Binding"),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
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
    ),
    _POD,
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
        deprecated={"v1beta2": Deprecation("1.36", "1.39"), "v1alpha3": Deprecation("1.36", "1.39")},
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
    ),
)

_AUTHZ: Final = "authorization.k8s.io"
# In the order in which discovery lists the groups.
TABLE: Final = (
    *_CORE,
    *_EVENTS,
    _create_only("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _create_only("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _create_only(_AUTHZ, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    _create_only(_AUTHZ, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _create_only(_AUTHZ, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _create_only(_AUTHZ, "subjectaccessreviews", "SubjectAccessReview"),
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
    *_RESOURCE,
)

_PRIORITY: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_DEFAULT_OFF: Final = frozenset(
    {"resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"}
)


def _enabled_versions(runtime_config: Mapping[str, bool]) -> set[str]:
    """Group versions that are served, as `resource.k8s.io/v1`; unknown keys of runtime_config are an error."""
    known = {
        f"{resource.group}/{version}" if resource.group else version
        for resource in TABLE
        for version in resource.versions
    }
    enabled = known - _DEFAULT_OFF
    general = {
        "api/all": known,
        "api/ga": {version for version in known if version.endswith("v1")},
        "api/beta": {version for version in known if "beta" in version},
        "api/alpha": {version for version in known if "alpha" in version},
    }
    # The specific entry wins over the general one, whatever their order.
    for key, on in sorted(runtime_config.items(), key=lambda item: item[0] not in general):
        name = key.removeprefix("api/") if key == "api/v1" else key
        chosen = general.get(key) or ({name} if name in known else None)
        if chosen is None:
            allowed = ", ".join(sorted(known | set(general)))
            raise ValueError(f"runtime_config: unknown API version {key!r}; allowed: {allowed}")
        enabled = enabled | chosen if on else enabled - chosen
    return enabled


class Resources:
    """The resources that one server serves, by path and by kind."""

    def __init__(self, runtime_config: Mapping[str, bool] | None = None) -> None:
        """`runtime_config` as the server's flag of that name: `resource.k8s.io/v1beta1` or `api/all` -> on or off."""
        enabled = _enabled_versions(runtime_config or {})
        self._served: dict[tuple[str, str, str], Served] = {}
        self._kinds: dict[tuple[str, str, str], Served] = {}
        self._groups: dict[str, list[str]] = {}
        for resource in TABLE:
            for version in resource.versions:
                served = Served(resource, version)
                if served.api_version not in enabled:
                    continue
                self._served[resource.group, version, resource.plural] = served
                self._kinds[resource.group, version, resource.kind] = served
                versions = self._groups.setdefault(resource.group, [])
                if version not in versions:
                    versions.append(version)
                    versions.sort(key=_PRIORITY.index)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The resource of a path."""
        return self._served.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Served | None:
        """The resource of a kind."""
        return self._kinds.get((group, version, kind))

    def groups(self) -> dict[str, list[str]]:
        """Versions per group, groups in order of priority, the preferred version first."""
        return self._groups

    def of(self, group: str, version: str) -> Iterable[Served]:
        """The resources of a group version, by name."""
        found = [served for key, served in self._served.items() if key[:2] == (group, version)]
        return sorted(found, key=lambda served: served.resource.plural)

    def all(self) -> Iterable[Served]:
        """Everything that is served."""
        return self._served.values()


def conflict_of(served: Served, name: str, why: str) -> ApiError:
    """409 Conflict for an object of a resource."""
    resource = served.resource
    details: dict[str, Any] = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return ApiError(
        409, "Conflict", f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}', details
    )
