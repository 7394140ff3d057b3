"""Upstream's own table of allocation cases, run by upstream's own tests and written down as they run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from oracle_program import SOURCES

MODULE = "k8s.io/dynamic-resource-allocation"
TEMPLATE = Path(__file__).parent / "tables" / "export_test.go"
IMPLEMENTATIONS = ("experimental", "incubating", "stable")
_SORTED = "allocatortesting.TestLexicographicalAllocator(t, SupportedFeatures, record)"


def export(folder: Path) -> list[dict[str, Any]]:
    """Each case with the allocators that upstream tests with it: `{implementation, cancelled, line, answer}`.

    A file is injected into a copy of the module below `folder`: Go refuses to change its own cache of modules, even for
    a single build.
    """
    copy = folder / "module"
    shutil.copytree(_module(), copy)
    replaced = {}
    for name in IMPLEMENTATIONS:
        source = folder / f"{name}.go"
        source.write_text(_source(name))
        replaced[str(copy / "structured" / "internal" / name / "drakit_export_test.go")] = str(source)
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}))
    tables = folder / "tables"
    tables.mkdir()
    _go(
        ["test", "-trimpath", "-count=1", "-overlay", str(overlay), "-run", "TestDrakitExport"]
        + [f"./structured/internal/{name}" for name in IMPLEMENTATIONS],
        copy,
        DRAKIT_TABLES=str(tables),
    )
    return [json.loads(line) for name in IMPLEMENTATIONS for line in (tables / name).read_text().splitlines()]


def _source(name: str) -> str:
    stable = name == "stable"
    text = TEMPLATE.read_text().replace("PACKAGE", name)
    text = text.replace("GIVEN", "state.AllocatedDevices" if stable else "state")
    return text.replace("SORTED()", "" if stable else _SORTED)


def _module() -> str:
    return _go(["list", "-m", "-f", "{{.Dir}}", MODULE], SOURCES).strip()


def _go(arguments: list[str], folder: Path, **variables: str) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -modcacherw", "GOWORK": "off", **variables}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
