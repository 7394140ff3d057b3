"""Every rule of drakit lint: what provokes it, at which line and field, and what is right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from drakit.offline.linting import RULES, Finding, Target, lint
from drakit.offline.settings import chosen_gates

CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
"""


def claim(request: str, version: str = "v1") -> str:
    return f"""apiVersion: resource.k8s.io/{version}
kind: ResourceClaim
metadata: {{name: c}}
spec:
  devices:
    requests:
    - name: r
      {request}
"""


def asking(expression: str) -> str:
    return claim(f"exactly: {{deviceClassName: gpu, selectors: [{{cel: {{expression: '{expression}'}}}}]}}")


def published(*devices: str, version: str = "v1") -> str:
    listed = "".join(f"  - {{name: d{number}, {device}}}\n" for number, device in enumerate(devices))
    return f"""apiVersion: resource.k8s.io/{version}
kind: ResourceSlice
metadata: {{name: s}}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {{name: n1, generation: 1, resourceSliceCount: 1}}
  devices:
{listed}"""


def pod(spec: str, containers: str = "[{name: c, image: i}]") -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: {containers}
  {spec}
"""


RULE = """apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: t}
spec: {taint: {key: k, effect: NoSchedule}}
"""
USING = "[{name: c, image: i, resources: {claims: [{name: g}]}}]"
NUMA = 'device.attributes["gpu.example.com"].numa'
EXACT = "spec.devices.requests[0].exactly"
CEL = f"{EXACT}.selectors[0].cel.expression"


@dataclass(frozen=True)
class Case:
    """Documents, the rule, the line (in the file of all documents), the field, and words of text and remedy."""

    rule: str
    documents: tuple[str, ...]
    line: int
    path: str
    words: tuple[str, ...]
    gates: str = ""
    version: str = "1.37"
    old: str = ""


CASES = [
    Case("syntax", ("a: [",), 1, "", ("this is no YAML",)),
    Case("syntax", ("a: {{ .Values.b }}",), 1, "", ("helm template",)),
    Case("kind", ("kind: Pod\n",), 1, "apiVersion", ("apiVersion is missing",)),
    Case("kind", ("apiVersion: v1\nkind: Pot\nmetadata: {name: p}\n",), 2, "kind", ('did you mean "Pod"?',)),
    Case(
        "kind",
        ("apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: c}\n",),
        2,
        "kind",
        ("write apiVersion: resource.k8s.io/v1",),
    ),
    Case(
        "api-version",
        (published("basic: {}", version="v1beta1"),),
        1,
        "apiVersion",
        (
            "--runtime-config=resource.k8s.io/v1beta1=true",
            "deprecated since 1.35",
            "write resource.k8s.io/v1",
        ),
    ),
    Case(
        "api-version-missing",
        (RULE,),
        1,
        "apiVersion",
        ("since Kubernetes 1.37, and the target is 1.36", "write resource.k8s.io/v1beta2"),
        version="1.36",
    ),
    Case(
        "unknown-field",
        (claim("exactly: {deviceClassname: gpu}"),),
        8,
        f"{EXACT}.deviceClassname",
        ("did you mean", "write deviceClassName"),
    ),
    Case(
        "wrong-nesting",
        (claim("deviceClassName: gpu"),),
        8,
        "spec.devices.requests[0].deviceClassName",
        ("unknown field deviceClassName", "in v1 it is exactly.deviceClassName"),
    ),
    Case(
        "wrong-nesting",
        (claim("exactly: {deviceClassName: gpu}", "v1beta1"),),
        8,
        "spec.devices.requests[0].exactly",
        ("in v1beta1 its fields stand in the request itself",),
    ),
    Case(
        "wrong-nesting",
        (published("basic: {}"),),
        9,
        "spec.devices[0].basic",
        ("in v1 its fields stand in the device",),
    ),
    Case(
        "wrong-place",
        (CLASS, claim("exactly: {deviceClassName: gpu}") + "  tolerations: []\n"),
        14,
        "spec.tolerations",
        ("spec.tolerations unknown; did you mean spec.devices.requests[0].exactly.tolerations",),
    ),
    Case(
        "removed-field",
        (pod("resourceClaims: [{name: g, source: {resourceClaimName: x}}]", USING),),
        6,
        "spec.resourceClaims[0].source",
        ("gone since Kubernetes 1.31", "one level up"),
    ),
    Case(
        "removed-field",
        (published("nodeAllocatableResourceMappings: {cpu: {}}"),),
        9,
        "spec.devices[0].nodeAllocatableResourceMappings",
        ("of Kubernetes 1.36", "nodeAllocatableResources"),
    ),
    Case(
        "wrong-type",
        (claim("exactly: {deviceClassName: gpu, count: two}"),),
        8,
        f"{EXACT}.count",
        ("must be a whole number", "not a string"),
    ),
    Case("duplicate", (CLASS + "kind: DeviceClass\n",), 5, "", ('key "kind" already set',)),
    Case("name", ("apiVersion: v1\nkind: Node\n",), 1, "metadata.name", ("no name", "set metadata.name")),
    Case(
        "invalid",
        (claim("exactly: {deviceClassName: gpu, count: -1}"),),
        8,
        f"{EXACT}.count",
        ("Invalid value: -1: must be greater than zero",),
    ),
    Case(
        "dropped",
        (published("taints: [{key: k, effect: NoSchedule}]"),),
        9,
        "spec.devices[0].taints",
        ("server dropped spec.devices[0].taints", "DRADeviceTaints is off", "switch DRADeviceTaints on"),
        gates="DRADeviceTaints=false",
    ),
    Case(
        "server-warning",
        (published("allowMultipleAllocations: false").replace("gpu.example.com", "GPU.example.com"),),
        5,
        "spec.driver",
        ("driver names should be lowercase",),
    ),
    Case(
        "class-is-driver",
        (CLASS, claim("exactly: {deviceClassName: gpu.example.com}")),
        13,
        f"{EXACT}.deviceClassName",
        ("is the name of a driver", "such as gpu"),
    ),
    Case(
        "class-is-driver",
        (CLASS, published("bindsToNode: true"), asking('device.driver == "gpu"')),
        23,
        CEL,
        ("gpu is the name of a class", "gpu.example.com"),
    ),
    Case(
        "class-unknown",
        (CLASS, claim("exactly: {deviceClassName: gpus}")),
        13,
        f"{EXACT}.deviceClassName",
        ("no DeviceClass gpus", "did you mean gpu?"),
    ),
    Case(
        "class-selects-all",
        ("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: all}\nspec: {}\n",),
        4,
        "spec",
        ("every device of every driver",),
    ),
    Case(
        "claim-unknown",
        (
            pod("resourceClaims: [{name: g, resourceClaimName: cc}]", USING),
            claim("exactly: {deviceClassName: gpu}"),
        ),
        6,
        "spec.resourceClaims[0].resourceClaimName",
        ("no claim cc", "did you mean c?"),
    ),
    Case(
        "claim-unknown",
        (
            pod("resourceClaims: [{name: g, resourceClaimName: c}]", USING),
            claim("exactly: {deviceClassName: gpu}").replace("name: c", "name: c, namespace: other"),
        ),
        6,
        "spec.resourceClaims[0].resourceClaimName",
        ("is in namespace other",),
    ),
    Case(
        "claim-unused",
        (pod("resourceClaims: [{name: g, resourceClaimName: c}]"),),
        6,
        "spec.resourceClaims[0]",
        ("no container has g in resources.claims",),
    ),
    Case(
        "best-effort",
        (
            CLASS,
            claim("exactly: {deviceClassName: gpu}"),
            pod("resourceClaims: [{name: g, resourceClaimName: c}]", USING),
            published("nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: 2}}}"),
        ),
        20,
        "spec.resourceClaims[0]",
        ("cpu through its claim only", "set requests for cpu"),
        gates="DRANodeAllocatableResources=true",
    ),
    Case(
        "selector-unguarded",
        (CLASS, asking(f"{NUMA} == 1")),
        13,
        CEL,
        ("fails for a device without numa", '"numa" in device.attributes["gpu.example.com"]'),
    ),
    Case(
        "selector-fails",
        (
            CLASS,
            asking(f"{NUMA} == 1"),
            published("attributes: {numa: {int: 1}}", "attributes: {x: {int: 1}}"),
        ),
        13,
        CEL,
        ("on device gpu.example.com/n1/d1: no such key: numa", "guard it"),
    ),
    Case(
        "selects-nothing",
        (CLASS.replace("gpu.example.com", "gpu.example.org"), published("bindsToNode: true")),
        4,
        "spec.selectors",
        ("match none of the 1 devices",),
    ),
    Case(
        "attribute-list",
        (CLASS, asking(f"{NUMA} == 1"), published("attributes: {numa: {ints: [1]}}")),
        13,
        CEL,
        ("is a list on device gpu.example.com/n1/d0", f"includes({NUMA}, 1)"),
        gates="DRAListTypeAttributes=true",
    ),
    Case(
        "attribute-type",
        (CLASS, asking(f'{NUMA} == "1"'), published("attributes: {numa: {int: 1}}")),
        13,
        CEL,
        ("has type int", '"1" has type string'),
    ),
    Case(
        "attribute-mixed",
        (published("attributes: {numa: {int: 1}}", "attributes: {numa: {string: a}}"),),
        10,
        "spec.devices[1].attributes.numa",
        ("has type string here and int on device gpu.example.com/n1/d0",),
    ),
    Case(
        "attribute-changed",
        (published("attributes: {numa: {ints: [1]}}"),),
        9,
        "spec.devices[0].attributes.numa",
        ("changes its type from int to ints",),
        gates="DRAListTypeAttributes=true",
        old=published("attributes: {numa: {int: 1}}"),
    ),
]


def found(case: Case) -> list[Finding]:
    target = Target(case.version, chosen_gates(case.gates, case.version))
    old = [("old.yaml", case.old)] if case.old else []
    return lint([("new.yaml", "---\n".join(case.documents))], old, target)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.rule}-{number}" for number, case in enumerate(CASES)])
def test_a_mistake_is_found_where_it_is(case: Case) -> None:
    findings = [finding for finding in found(case) if finding.rule == case.rule]
    assert findings, [str(finding) for finding in found(case)]
    finding = findings[0]
    assert (finding.file, finding.line, finding.path) == ("new.yaml", case.line, case.path), str(finding)
    for word in case.words:
        assert word in str(finding)


def test_every_rule_is_provoked() -> None:
    assert {case.rule for case in CASES} == set(RULES)


@pytest.mark.parametrize(
    "documents",
    [
        (
            CLASS,
            claim("exactly: {deviceClassName: gpu}"),
            pod("resourceClaims: [{name: g, resourceClaimName: c}]", USING),
        ),
        (CLASS, asking(f'"numa" in device.attributes["gpu.example.com"] && {NUMA} == 1')),
        (CLASS, asking(f'{NUMA} == 1 && "numa" in device.attributes["gpu.example.com"]')),
        (CLASS, asking(f"has({NUMA}) && {NUMA} == 1")),
        (CLASS, asking(f"!has({NUMA}) || {NUMA} == 1")),
        (CLASS, asking(f"has({NUMA}) ? {NUMA} == 1 : false")),
        (CLASS, asking('device.attributes["gpu.example.com"].?numa.orValue(0) == 1')),
        (CLASS, asking(f"{NUMA} == 1"), published("attributes: {numa: {int: 1}}")),
        ("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: {a: 1}\n",),
        ("",),
    ],
)
def test_what_is_right_is_not_found(documents: tuple[str, ...]) -> None:
    assert [str(finding) for finding in found(Case("", documents, 0, "", ()))] == []


def test_a_field_that_was_dropped_in_one_version_is_kept_in_another() -> None:
    tainted = published("taints: [{key: k, effect: NoSchedule}]")
    assert "dropped" in {finding.rule for finding in found(Case("", (tainted,), 0, "", (), version="1.35"))}
    assert "dropped" not in {finding.rule for finding in found(Case("", (tainted,), 0, "", ()))}
