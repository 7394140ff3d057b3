"""The kinds of the differential test, and valid objects of them drawn from a seeded source of chance.

All specs are drawn in the form of resource.k8s.io/v1 and rewritten for older versions. What the API does not let a
client change (the spec of a claim) depends on the object's name alone, so that updates stay valid.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from api_chance import MICRO, STAMP, UIDS, Object, maybe, some, steady
from api_devices import (
    claim,
    claim_status,
    device_class,
    resource_slice,
    rule_status,
    taint_rule,
    template,
)

DRA: Final = "resource.k8s.io"
LABELS: Final[dict[str, tuple[str, ...]]] = {"app": ("a", "b"), "tier": ("x", "y")}
FINALIZERS: Final = ("example.com/one", "example.com/two")


@dataclass(frozen=True)
class Kind:
    """One kind under test. `make(chance, name)` draws what stands beside kind and metadata."""

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    namespaced: bool
    make: Callable[[random.Random, str], Object]
    status: Callable[[random.Random, str], Object] | None = None
    fixed_spec: bool = False
    field_selectors: tuple[str, ...] = ()
    delete_at: tuple[str, ...] = ()

    def api_version(self, version: str) -> str:
        """`v1` or `resource.k8s.io/v1`."""
        return f"{self.group}/{version}" if self.group else version

    def path(self, version: str, namespace: str, name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource."""
        base = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        if self.namespaced and namespace:
            base += f"/namespaces/{namespace}"
        return "/".join(part for part in (f"{base}/{self.plural}", name, subresource) if part)


def metadata(chance: random.Random, name: str, **more: Any) -> Object:
    """Metadata with a random choice of what a client may set."""
    labels = {key: chance.choice(values) for key, values in LABELS.items() if chance.random() < 0.6}
    return some(
        name=name or None,
        labels=labels or maybe(chance, 0.1, dict),
        annotations=maybe(chance, 0.3, lambda: {f"note/{chance.randint(0, 2)}": f"t{chance.randint(0, 3)}"}),
        finalizers=maybe(chance, 0.15, lambda: chance.sample(FINALIZERS, chance.randint(1, 2))),
        ownerReferences=maybe(chance, 0.12, lambda: owners(chance)),
        **more,
    )


def owners(chance: random.Random) -> list[Object]:
    """One or two owners, which need not exist."""
    return [
        some(
            apiVersion="v1",
            kind="ConfigMap",
            name=f"owner-{index}",
            uid=UIDS[index],
            controller=maybe(chance, 0.4, lambda index=index: index == 0),
            blockOwnerDeletion=maybe(chance, 0.3, lambda: True),
        )
        for index in chance.sample((0, 1), chance.randint(1, 2))
    ]


def config_map(chance: random.Random, name: str) -> Object:
    """Data, rarely binary or immutable."""
    keys = [f"k{index}" for index in range(4) if chance.random() < 0.5]
    return some(
        data={key: chance.choice(("1", "2", "true", "", "multi\nline", "ü<&>")) for key in keys} or None,
        binaryData=maybe(chance, 0.15, lambda: {"b": chance.choice(("AAEC", "aGVsbG8="))}),
        immutable=maybe(chance, 0.04, lambda: chance.random() < 0.5),
    )


def lease(chance: random.Random, name: str) -> Object:
    """A lease with some of its fields."""
    spec = some(
        holderIdentity=maybe(chance, 0.7, lambda: f"h{chance.randint(0, 2)}"),
        leaseDurationSeconds=maybe(chance, 0.6, lambda: chance.choice((15, 40))),
        acquireTime=maybe(chance, 0.3, lambda: MICRO),
        renewTime=maybe(chance, 0.5, lambda: MICRO),
        leaseTransitions=maybe(chance, 0.3, lambda: chance.randint(0, 3)),
    )
    return {"spec": spec}


def pod(_: random.Random, name: str) -> Object:
    """A pod of one or two containers whose claims belong to its name."""
    chance = steady(name)
    claims = [
        {"name": "by-name", "resourceClaimName": "claim"},
        {"name": "by-template", "resourceClaimTemplateName": "template"},
    ][: chance.randint(0, 2)]
    containers = []
    for index in range(chance.randint(1, 2)):
        used = [some(name=item["name"], request=maybe(chance, 0.4, lambda: "r0")) for item in claims]
        resources = some(claims=used or None)
        containers.append(some(name=f"c{index}", image="probe:1", resources=resources or None))
    if chance.random() < 0.3:
        containers[0].setdefault("resources", {})["limits"] = {_EXTENDED: "1"}
    spec = some(
        automountServiceAccountToken=False,
        serviceAccountName="default",
        containers=containers,
        resourceClaims=claims or None,
        restartPolicy=maybe(chance, 0.3, lambda: "Never"),
        terminationGracePeriodSeconds=maybe(chance, 0.3, lambda: 5),
        nodeName=maybe(chance, 0.3, lambda: "n1"),
    )
    return {"spec": spec}


def pod_status(chance: random.Random, name: str) -> Object:
    """The status fields of claims, and little else."""
    claims = pod(chance, name)["spec"].get("resourceClaims", ())
    statuses = [
        some(name=item["name"], resourceClaimName=maybe(chance, 0.8, lambda: "made-up"))
        for item in claims
        if chance.random() < 0.8
    ]
    first = pod(chance, name)["spec"]["containers"][0]
    mapping = {"containerName": first["name"], "resourceName": _EXTENDED, "requestName": "r0"}
    extended = {"resourceClaimName": "made-up", "requestMappings": [mapping]}
    asks = "limits" in first.get("resources", {})
    return some(
        phase=chance.choice(("Pending", "Running")),
        extendedResourceClaimStatus=extended if asks and chance.random() < 0.7 else None,
        resourceClaimStatuses=statuses or None,
        conditions=maybe(
            chance, 0.4, lambda: [{"type": "PodScheduled", "status": "True", "lastTransitionTime": STAMP}]
        ),
    )


_EXTENDED: Final = "example.com/gpu"
_META: Final = ("metadata.name=$NAME", "metadata.name!=$NAME", "metadata.namespace=$NS")
_DRA_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")

KINDS: Final = (
    Kind("", ("v1",), "configmaps", "ConfigMap", True, config_map, field_selectors=_META),
    Kind("coordination.k8s.io", ("v1",), "leases", "Lease", True, lease, field_selectors=_META),
    Kind(
        DRA, _DRA_VERSIONS, "resourceclaims", "ResourceClaim", True, claim, claim_status, True,
        field_selectors=_META,
    ),
    Kind(
        DRA, _DRA_VERSIONS, "resourceclaimtemplates", "ResourceClaimTemplate", True, template,
        fixed_spec=True, field_selectors=_META,
    ),
    Kind(
        DRA, _DRA_VERSIONS, "resourceslices", "ResourceSlice", False, resource_slice,
        field_selectors=(
            "metadata.name=$NAME", "spec.driver=gpu.example.com", "spec.nodeName=n1", "spec.pool.name=pool",
            "spec.driver=gpu.example.com,spec.nodeName=n1",
        ),
    ),
    Kind(
        DRA, _DRA_VERSIONS, "deviceclasses", "DeviceClass", False, device_class,
        field_selectors=("metadata.name=$NAME", "metadata.name!=$NAME"),
    ),
    Kind(
        DRA, ("v1", "v1beta2", "v1alpha3"), "devicetaintrules", "DeviceTaintRule", False, taint_rule, rule_status,
        field_selectors=("metadata.name=$NAME", "metadata.name!=$NAME"),
    ),
    Kind(
        "", ("v1",), "pods", "Pod", True, pod, pod_status, True,
        field_selectors=(*_META, "status.phase=Pending", "spec.nodeName=n1", "spec.restartPolicy!=Always"),
    ),
)  # fmt: skip

POOL_REQUESTS: Final = Kind(
    DRA, ("v1alpha3",), "resourcepoolstatusrequests", "ResourcePoolStatusRequest", False,
    lambda *_: {"spec": {"driver": "gpu.example.com"}},
)  # fmt: skip
"""A kind that is served with a gate only."""


def rewritten(kind: Kind, version: str, body: Object) -> Object:
    """A drawn object, or a part of one, in an older version."""
    if version != "v1beta1" or kind.group != DRA:
        return body
    body = copy.deepcopy(body)
    spec = body.get("spec") or {}
    if kind.plural == "resourceclaimtemplates":
        spec = spec.get("spec") or {}
    if kind.plural == "resourceslices":
        spec["devices"] = [
            {"name": device["name"], "basic": {key: value for key, value in device.items() if key != "name"}}
            for device in spec.get("devices", ())
        ]
        if not spec["devices"] and "sharedCounters" in spec:
            del spec["devices"]
    requests = (
        (spec.get("devices") or {}).get("requests", ()) if isinstance(spec.get("devices"), dict) else ()
    )
    for request in requests:
        request.update(request.pop("exactly", {}))
    return body
