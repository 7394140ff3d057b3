"""Upstream's own tables of cases, run by upstream's own tests and written down as they run.

Files are injected into a copy of the module below a given folder: Go refuses to change its own cache of modules, even
for a single build.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle_program import SOURCES

MODULE = "k8s.io/dynamic-resource-allocation"
TEMPLATES = Path(__file__).parent / "tables"
IMPLEMENTATIONS = ("experimental", "incubating", "stable")
_SORTED = "allocatortesting.TestLexicographicalAllocator(t, SupportedFeatures, record)"
_OBSERVED = {
    "CompileCELExpression": "drakitCompile",
    "DeviceMatches": "drakitMatches",
    "EvaluateDerivedAttribute": "drakitDerive",
}


def allocations(folder: Path) -> list[dict[str, Any]]:
    """Each case with the allocators that upstream tests with it: `{implementation, cancelled, line, answer}`."""
    copy = _copy(folder)
    sources = {
        f"structured/internal/{name}/drakit_export_test.go": _allocations_source(name)
        for name in IMPLEMENTATIONS
    }
    packages = [f"./structured/internal/{name}" for name in IMPLEMENTATIONS]
    tables = _test(folder, copy, sources, ["-run", "TestDrakitExport", *packages])
    return [entry for name in IMPLEMENTATIONS for entry in _read(tables / name)]


def expressions(folder: Path) -> list[dict[str, Any]]:
    """Each expression that a test of upstream's compiler compiles, and each evaluation for a device.

    `{evaluated, cancelled, line, answer}`; the lines also say whether the attribute of a device is `derived`.
    """
    copy = _copy(folder)
    compiler = (copy / "cel" / "compile.go").read_text()
    for method, name in _OBSERVED.items():
        assert compiler.count(f") {method}(") == 1, f"upstream has no method {method} any more"
        compiler = compiler.replace(f") {method}(", f") {name}(")
    export = (TEMPLATES / "expressions_test.go").read_text()
    sources = {"cel/compile.go": compiler, "cel/drakit_export_test.go": export}
    return _read(_test(folder, copy, sources, ["./cel"]) / "cel")


def _allocations_source(name: str) -> str:
    stable = name == "stable"
    text = (TEMPLATES / "allocations_test.go").read_text().replace("PACKAGE", name)
    text = text.replace("GIVEN", "state.AllocatedDevices" if stable else "state")
    return text.replace("SORTED()", "" if stable else _SORTED)


def _copy(folder: Path) -> Path:
    module = _go(["list", "-m", "-f", "{{.Dir}}", MODULE], SOURCES).strip()
    return Path(shutil.copytree(module, folder / "module"))


def _test(folder: Path, module: Path, sources: Mapping[str, str], arguments: Sequence[str]) -> Path:
    """The folder with what tests have written that ran with other sources for these paths of the module."""
    replaced = {}
    for number, (path, text) in enumerate(sources.items()):
        source = folder / f"{number}.go"
        source.write_text(text)
        replaced[str(module / path)] = str(source)
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}))
    tables = folder / "tables"
    tables.mkdir()
    _go(
        ["test", "-trimpath", "-count=1", "-overlay", str(overlay), *arguments],
        module,
        DRAKIT_TABLES=str(tables),
    )
    return tables


def _read(table: Path) -> list[dict[str, Any]]:
    with table.open() as lines:
        return [json.loads(line) for line in lines]


def _go(arguments: Sequence[str], folder: Path, **variables: str) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -modcacherw", "GOWORK": "off", **variables}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout
