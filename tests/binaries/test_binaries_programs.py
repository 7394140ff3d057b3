"""Programs of other projects, built from modules of their own. `go` is a stand-in here."""

from __future__ import annotations

from pathlib import Path

import pytest
from release_server import FakeGo

from clusters.binaries import BinariesError, programs
from clusters.binaries.cache import Shelf
from clusters.binaries.programs import CONTAINERD, CRICTL, KIND, PROGRAMS


def test_a_program_is_built_in_the_folder_of_its_modules(go: FakeGo, cache: Path) -> None:
    found = programs.find([KIND])
    assert found.path("kind") == cache / "kind-v0.33.0" / "kind"
    assert found.path("kind").read_text() == "built sigs.k8s.io/kind"
    assert str(KIND.module) in go.calls[0].split()


def test_what_is_there_is_not_built_again(go: FakeGo) -> None:
    programs.find(CONTAINERD[:1])
    programs.find(CONTAINERD)
    assert go.packages == [program.package for program in CONTAINERD]


def test_programs_in_use_are_not_pruned(go: FakeGo) -> None:
    found = programs.find([KIND, CRICTL])
    assert Shelf(KIND.shelf).prune() is None
    assert found.hold is not None
    found.hold.close()
    assert Shelf(KIND.shelf).prune() is not None


def test_without_go_it_says_what_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesError) as error:
        programs.find([KIND])
    assert str(error.value) == (
        'kind v0.33.0 is built with Go, and there is no program "go" in PATH; Go 1.26.0 or newer is needed; '
        "what helps: Go 1.26.0 or newer in PATH (https://go.dev/dl), and GOPROXY where the modules have a mirror"
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_modules_pin_the_version(program: programs.GoProgram) -> None:
    text = (program.module / "go.mod").read_text(encoding="utf-8")
    assert f" {program.version}\n" in text
    assert f'"{program.package}"' in (program.module / "tools.go").read_text(encoding="utf-8")
    assert program.version in program.shelf
