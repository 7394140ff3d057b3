"""Names of images, as kubelets and containerd read them."""

from __future__ import annotations

import pytest

from clusters.containers.images import Images, full_name, name_problem

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/me/app", "docker.io/me/app:latest"),
        ("localhost/app:1", "localhost/app:1"),
        ("registry.example:5000/a/b:1", "registry.example:5000/a/b:1"),
        ("UPPER/app:1", "UPPER/app:1"),
        (f"a/b:1@{DIGEST}", f"docker.io/a/b@{DIGEST}"),
    ],
)
def test_names_are_made_full(name: str, wanted: str) -> None:
    assert full_name(name) == wanted
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Bad Image", "invalid reference format: repository name (library/Bad Image) must be lowercase"),
        ("a.example/Bad:1", "invalid reference format: repository name (Bad) must be lowercase"),
        ("bad image", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a@sha256:12", "invalid reference format"),
        ("", "invalid reference format"),
        (
            "0" * 64,
            f"invalid repository name ({'0' * 64}), cannot specify 64-byte hexadecimal strings",
        ),
    ],
)
def test_what_is_no_name_is_told(name: str, problem: str) -> None:
    assert name_problem(name) == problem


def test_an_image_is_known_by_its_id_once_its_name_was_asked_for() -> None:
    images = Images()
    found = images.find("busybox")
    assert found is not None
    assert images.find(found.id) is images.find("docker.io/library/busybox:latest") is found
    assert images.find(DIGEST) is None
    images.find("alpine")
    assert [image.name for image in images.all()] == [
        "docker.io/library/alpine:latest",
        "docker.io/library/busybox:latest",
    ]
    images.remove("busybox")
    images.remove("busybox")
    assert images.find(found.id) is None
