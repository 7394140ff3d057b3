from __future__ import annotations

import pytest

from dra_api.decode import ManifestError, load_manifests, suggest
from dra_api.schema import load

TWO = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu
---
# nothing here
---
apiVersion: v1
kind: Pod
metadata:
  generateName: p-
spec:
  containers:
  - name: c
    image: i
    resources:
      limits: {cpu: 0.5}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_manifests(text, "f.yaml")
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def claim(devices: str) -> str:
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  name: c\nspec:\n  devices:\n"
        + devices
    )


def test_documents_are_returned_as_they_were_written() -> None:
    first, second = load_manifests(TWO, "f.yaml")
    assert first == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
    }
    assert second["spec"]["containers"][0]["resources"] == {"limits": {"cpu": 0.5}}
    assert "status" not in second


def test_items_of_a_list_stand_for_themselves() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: ns}}\n"
    assert load_manifests(text, "f.yaml") == [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    ]


def test_unknown_field_gets_a_suggestion_and_its_line() -> None:
    text = claim("    requests:\n    - name: r\n      exactly:\n        deviceClass: g\n")
    assert problems(text) == [
        (
            "f.yaml:10: document 1: spec.devices.requests[0].exactly.deviceClass: unknown field, "
            'did you mean "deviceClassName"?'
        )
    ]


def test_unknown_field_without_likeness_lists_what_is_allowed() -> None:
    text = claim("    requests:\n    - name: r\n      zzz: 1\n")
    assert problems(text) == [
        (
            "f.yaml:9: document 1: spec.devices.requests[0].zzz: unknown field; allowed are: "
            "name, exactly, firstAvailable"
        )
    ]


def test_all_problems_are_said_at_once() -> None:
    text = claim("    requests: {}\n    config: x\n") + "---\nkind: Pod\n"
    assert problems(text) == [
        "f.yaml:7: document 1: spec.devices.requests: must be a list, not a map",
        "f.yaml:8: document 1: spec.devices.config: must be a list, not a string",
        "f.yaml:10: document 2: apiVersion: required, a string such as resource.k8s.io/v1",
    ]


def test_number_for_a_string_is_to_be_quoted() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  labels:\n    rack: 5\n"
    assert problems(text) == [
        "f.yaml:6: document 1: metadata.labels.rack: must be a string, not a number; put it in quotes"
    ]


def test_word_that_yaml_reads_as_boolean_is_explained() -> None:
    (found,) = problems("apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n")
    assert found == (
        "f.yaml:4: document 1: metadata.name: must be a string, not true or false; put it in quotes "
        "(YAML reads words such as y, n, yes, no, on, off as true or false)"
    )


def test_wrong_item_of_a_list_is_named_by_its_index() -> None:
    text = claim("    constraints:\n    - requests: [a, b, 3]\n")
    assert problems(text) == [
        (
            "f.yaml:8: document 1: spec.devices.constraints[0].requests[2]: must be a string, not a number; "
            "put it in quotes"
        )
    ]


def test_bad_quantity_keeps_the_reason_of_the_server() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus:\n  capacity: {cpu: 1x}\n"
    (found,) = problems(text)
    assert found.startswith("f.yaml:5: document 1: status.capacity.cpu: quantities must match")


def test_key_that_is_set_twice() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  name: n2\n"
    assert problems(text) == ['f.yaml:5: document 1: key "name" already set in this map; remove one']


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (
            "apiVersion: v1\nkind: Pods",
            'f.yaml:2: document 1: kind: there is no kind "Pods" in "v1", did you mean "Pod"?',
        ),
        (
            "apiVersion: v1\nkind: Deployment",
            'f.yaml:2: document 1: kind: there is no kind "Deployment" in "v1"; it exists in apps/v1',
        ),
        ("- 1", "f.yaml:1: document 1: must be a Kubernetes object with apiVersion and kind, not a list"),
        ("a: b: c", "f.yaml:1: document 1: this is no YAML: mapping values are not allowed in this context"),
        (
            "apiVersion: v1\nkind: Pod\nspec: {containers: []}",
            "f.yaml:1: document 1: metadata.name: required (or metadata.generateName)",
        ),
    ],
)
def test_document_that_is_no_known_object(head: str, problem: str) -> None:
    assert problems(head) == [problem]


def test_suggestion_ignores_case_and_gives_up_on_the_unlike() -> None:
    pod_spec = load().message("core/v1.PodSpec")
    assert suggest("nodeselector", pod_spec) == "nodeSelector"
    assert suggest("NODENAME", pod_spec) == "nodeName"
    assert suggest("resourceClaim", pod_spec) == "resourceClaims"
    assert suggest("qqq", pod_spec) is None
