"""The archive of the images that containers of tests start. The program is a stand-in here."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from clusters.containers.images import full_name
from clusters.kind.image import archive, probe, store

ROOT = Path(__file__).parents[2]
_NAMES = (
    # Written as manifests, or as what a suite makes of them.
    re.compile(r"^[- ]*image: +[\"']?([^\s\"'#]+)", re.MULTILINE),
    re.compile(r"^IMAGE = \"([^\"]+)\"", re.MULTILINE),
    re.compile(r"\"image\": \"([^\"]+)\""),
)


def used() -> set[str]:
    """The images of the conformance suites, of the seeds, and of the tests of kind clusters that bring none."""
    files = [
        *(ROOT / "conformance").rglob("*.py"),
        *(ROOT / "tests" / "seeds" / "manifests").glob("*.yaml"),
        ROOT / "tests" / "kind" / "kind_kit.py",
    ]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return {name for text in texts for pattern in _NAMES for name in pattern.findall(text)}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the program, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = probe.own_program("probe")
    built = tmp_path / "drakit" / "binaries" / own.shelf / "probe"
    built.parent.mkdir(parents=True)
    built.write_bytes(b"program")
    built.chmod(0o755)
    return built


def test_the_suites_and_the_seeds_find_their_images() -> None:
    names = used()
    assert {"busybox", "ubuntu:22.04"} <= names
    assert names <= set(probe.PROBE_IMAGES)


def test_the_archive_has_every_name(program: Path) -> None:
    with tarfile.open(probe.probe_archive(print)) as found:
        manifest = json.load(found.extractfile("manifest.json"))  # type: ignore[arg-type]
        started = {
            tag: json.load(found.extractfile(entry["Config"]))["config"]["Cmd"]  # type: ignore[arg-type]
            for entry in manifest
            for tag in entry["RepoTags"]
        }
    assert started == {
        "docker.io/library/busybox:latest": ["sh"],
        "doc-cn-beijing.cr.volces.com/vke/gpu-burn:1.0": ["/pause"],
        "docker.io/drakit/probe:1": ["/pause"],
        "docker.io/library/ubuntu:20.04": ["/bin/bash"],
        "docker.io/library/ubuntu:22.04": ["/bin/bash"],
    }
    assert set(started) == {full_name(name) for name in probe.PROBE_IMAGES}


def test_a_mount_over_a_command_hides_that_command_alone(program: Path) -> None:
    [image, *_] = probe.images(program, "1")
    links = {entry.path: entry for entry in image.layers[0] if isinstance(entry, archive.Link)}
    assert links["/usr/bin/nvidia-smi"] == archive.Link("/usr/bin/nvidia-smi", "/usr/bin/probe", hard=True)
    assert links["/bin"] == archive.Link("/bin", "usr/bin")


def test_the_archive_is_made_once(program: Path) -> None:
    first = probe.probe_archive(print)
    assert first.parent == store.folder()
    first.write_bytes(b"kept")
    assert probe.probe_archive(print).read_bytes() == b"kept"
    assert sorted(path.name for path in store.folder().iterdir()) == [".locks", first.name]


def test_other_names_are_another_archive(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = probe.probe_archive(print)
    monkeypatch.setattr(probe, "PROBE_IMAGES", ("busybox",))
    assert probe.probe_archive(print) != first


def test_what_a_killed_run_left_is_removed(program: Path) -> None:
    name = probe.probe_archive(print).name
    (store.folder() / name).unlink()
    left = store.folder() / f".work-{name}-abc"
    left.mkdir()
    probe.probe_archive(print)
    assert not left.exists()
