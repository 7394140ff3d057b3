from __future__ import annotations

from typing import Any

import pytest

from dra_api.validation.core import validate_create

UP = "must not contain '..'"


def problems(volume: dict[str, Any], **mount: Any) -> list[str]:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "restartPolicy": "Always",
            "containers": [container],
            "volumes": [{"name": "v", **volume}],
        },
    }
    return [f"{error.field}: {error.detail}" for error in validate_create(pod) if error.type != "NotFound"]


@pytest.mark.parametrize("path", ["../x", "a/../../b", ".."])
@pytest.mark.parametrize(
    ("kind", "source", "where"),
    [
        ("configMap", lambda item: {"name": "n", "items": [item]}, "configMap.items[0].path"),
        ("secret", lambda item: {"secretName": "n", "items": [item]}, "secret.items[0].path"),
        ("downwardAPI", lambda item: {"items": [item]}, "downwardAPI.path"),
        (
            "projected",
            lambda item: {"sources": [{"configMap": {"name": "n", "items": [item]}}]},
            "projected.sources[0].configMap.items[0].path",
        ),
        ("projected", lambda item: {"sources": [{"serviceAccountToken": item}]}, "projected.path"),
    ],
)
def test_files_of_volumes_cannot_be_outside_of_them(kind: str, source: Any, where: str, path: str) -> None:
    item = {"key": "k", "path": path, "fieldRef": {"fieldPath": "metadata.name"}}
    assert problems({kind: source(item)})[0] == f"spec.volumes[0].{where}: {UP}"
    assert problems({kind: source({**item, "path": "/etc/x"})}) == [
        f"spec.volumes[0].{where}: must be a relative path"
    ]
    assert problems({kind: source({**item, "path": "..data"})}) == [
        f"spec.volumes[0].{where}: must not start with '..'"
    ]
    assert problems({kind: source({**item, "path": "a/..b"})}) == []


def test_paths_of_the_host_cannot_go_up() -> None:
    assert problems({"hostPath": {"path": "/var/../../x"}}) == [f"spec.volumes[0].hostPath.path: {UP}"]
    assert problems({"hostPath": {"path": ""}}) == ["spec.volumes[0].hostPath.path: "]
    assert problems({"hostPath": {"path": "/var/lib"}}) == []


def test_parts_of_volumes_cannot_be_outside_of_them() -> None:
    where = "spec.containers[0].volumeMounts"
    assert problems({"emptyDir": {}}, subPath="../x") == [f"{where}.subPath: {UP}"]
    assert problems({"emptyDir": {}}, subPathExpr="/$(X)") == [
        f"{where}.subPathExpr: must be a relative path"
    ]
    assert problems({"emptyDir": {}}, subPath="a", subPathExpr="b") == [
        f"{where}[0].subPathExpr: subPathExpr and subPath are mutually exclusive"
    ]
    assert problems({"emptyDir": {}}, subPathExpr="a/$(X)") == []


def test_a_volume_with_a_wrong_path_cannot_be_mounted() -> None:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/m"}]}
    spec = {
        "restartPolicy": "Always",
        "containers": [container],
        "volumes": [{"name": "v", "hostPath": {"path": ".."}}],
    }
    errors = validate_create({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert [(error.type, error.field) for error in errors] == [
        ("Invalid", "spec.volumes[0].hostPath.path"),
        ("NotFound", "spec.containers[0].volumeMounts[0].name"),
    ]
