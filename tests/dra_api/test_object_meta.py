from __future__ import annotations

from typing import Any

import pytest

from dra_api.validation.metadata import (
    ANNOTATIONS_MAX,
    validate_object_meta,
    validate_object_meta_update,
    validate_template_meta,
)
from dra_api.validation.names import is_label


def obj(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "ns", **metadata}}


def texts(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def test_plain_metadata_are_valid() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    full = obj(
        labels={"a/b": "c"}, annotations={"A/B": "any"}, finalizers=["a/b", "orphan"], ownerReferences=[owner]
    )
    assert validate_object_meta(full) == []


def test_name_and_namespace() -> None:
    assert texts(validate_object_meta({})) == [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
    ]
    assert texts(validate_object_meta(obj(), namespaced=False)) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]
    (error,) = validate_object_meta(obj(name="a.b"), name_rule=is_label)
    assert error.message == 'Invalid value: "a.b": must not contain dots'


def test_a_bad_prefix_is_reported_beside_the_generated_name() -> None:
    errors = validate_object_meta(obj(generateName="AB-", name="AB-12345"))
    assert [error.field for error in errors] == ["metadata.generateName", "metadata.name"]


def test_label_errors_do_not_name_the_key_in_the_path() -> None:
    errors = validate_object_meta(obj(labels={"a b": "c d"}))
    assert {error.field for error in errors} == {"metadata.labels"}
    assert [error.value for error in errors] == ["a b", "c d"]


@pytest.mark.parametrize(("excess", "count"), [(0, 0), (1, 1)])
def test_annotations_have_256_kib_in_all(excess: int, count: int) -> None:
    annotations = {"ab": "x" * (ANNOTATIONS_MAX - 2 + excess)}
    errors = validate_object_meta(obj(annotations=annotations))
    assert texts(errors) == ["metadata.annotations: Too long: may not be more than 262144 bytes"] * count


def test_one_controller_only() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": True}
        for name in ("a", "b")
    ]
    (error,) = validate_object_meta(obj(ownerReferences=owners))
    assert error.detail == (
        'Only one reference can have Controller set to true. Found "true" in references for Pod/a and Pod/b'
    )


def test_owner_references_are_complete() -> None:
    errors = validate_object_meta(obj(ownerReferences=[{"apiVersion": "a/b/c"}]))
    assert texts(errors) == [
        'metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>',
        "metadata.ownerReferences[0].kind: Required value: must not be empty",
        "metadata.ownerReferences[0].name: Required value: must not be empty",
        "metadata.ownerReferences[0].uid: Required value: must not be empty",
    ]


def test_finalizers_are_qualified_or_standard() -> None:
    (error,) = validate_object_meta(obj(finalizers=["mine"]))
    assert (error.field, error.detail) == (
        "metadata.finalizers[0]",
        "name is neither a standard finalizer name nor is it fully qualified",
    )
    (both,) = validate_object_meta(obj(finalizers=["orphan", "foregroundDeletion"]))
    assert both.detail == "finalizer orphan and foregroundDeletion cannot be both set"


def test_what_never_changes() -> None:
    old = obj(resourceVersion="1", uid="u", creationTimestamp="2026-01-01T00:00:00Z")
    new = obj(resourceVersion="1", uid="v", name="y", creationTimestamp="2026-01-01T00:00:00Z")
    assert texts(validate_object_meta_update(new, old)) == [
        'metadata.name: Invalid value: "y": field is immutable',
        'metadata.uid: Invalid value: "v": field is immutable',
    ]


def test_an_update_needs_a_resource_version_and_a_generation_that_does_not_fall() -> None:
    errors = validate_object_meta_update(obj(generation=1), obj(generation=2))
    assert texts(errors) == [
        'metadata.resourceVersion: Invalid value: "": must be specified for an update',
        "metadata.generation: Invalid value: 1: must not be decremented",
    ]


def test_a_dying_object_gets_no_new_finalizers() -> None:
    old = obj(resourceVersion="1", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
    new = obj(resourceVersion="1", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b", "c/d"])
    (error,) = validate_object_meta_update(new, old)
    assert error.message == (
        "Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"c/d"}'
    )
    assert validate_object_meta_update(obj(**old["metadata"] | {"finalizers": []}), old) == []


def test_templates_have_labels_and_annotations_only() -> None:
    meta = {"labels": {"a": "b"}, "annotations": {}, "name": "x", "creationTimestamp": None}
    assert texts(validate_template_meta(meta, "spec.metadata")) == [
        "spec.metadata.name: Forbidden: cannot be set"
    ]
