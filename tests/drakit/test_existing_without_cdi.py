"""A cluster of the user's whose runtime does not know CDI devices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_kit import Cli, new_cli

from drakit.up import reference_driver

pytestmark = pytest.mark.process
BLIND = Path(__file__).with_name("blind_cluster.py")
CONTAINERS = ("ALC-CDI-01", "ALC-CON-11", "ALC-CON-12")


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, Path]]:
    folder = tmp_path_factory.mktemp("blind")
    with new_cli(folder) as cli:
        process = subprocess.Popen(
            [sys.executable, str(BLIND), str(folder / "kubeconfig")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=cli.environment(),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield cli, folder / "kubeconfig"
        process.communicate(timeout=30)
        assert process.returncode == 0


def judge(blind: tuple[Cli, Path], descriptor: dict[str, Any]) -> tuple[int, dict[str, dict[str, Any]]]:
    cli, config = blind
    path = cli.folder / "installed.yaml"
    path.write_text(yaml.safe_dump(descriptor))
    focus = [word for name in CONTAINERS for word in ("--focus", name)]
    done = cli.finish(cli.start("conformance", path, "--kubeconfig", config, "--json", *focus))
    report = json.loads(done.out)
    return done.code, {record["id"]: record for record in report["results"] if record["id"] in CONTAINERS}


def reference(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load(reference_driver().read_text()), "installed": True, **changes}


def test_a_driver_that_promises_to_be_seen_shows_that_the_runtime_is_blind(blind: tuple[Cli, Path]) -> None:
    code, found = judge(blind, reference())
    assert (code, found["ALC-CDI-01"]["verdict"]) == (1, "fail")
    assert found["ALC-CDI-01"]["expected"] == "DRAKIT_VISIBLE of the driver's CDI edits in the container"
    for name in ("ALC-CON-11", "ALC-CON-12"):
        assert (found[name]["verdict"], found[name]["reason"]) == (
            "skip",
            "not testable: ALC-CDI-01 did not pass",
        )


def test_without_such_a_promise_nothing_is_judged(blind: tuple[Cli, Path]) -> None:
    code, found = judge(blind, reference(configs={}))
    assert (code, found["ALC-CDI-01"]["verdict"]) == (4, "skip")
    assert found["ALC-CDI-01"]["reason"] == (
        "not testable here: a container with a device of gpu.drakit.dev sees what one without sees, so that nothing "
        "tells whether the runtime handles CDI devices"
    )
    assert {found[name]["verdict"] for name in CONTAINERS} == {"skip"}
