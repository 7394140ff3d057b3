"""One run of upstream's specs for all tests of a session, on a cluster of the chosen tier."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import kubernetes
import pytest
from e2e_runner import Outcome, run
from e2e_specs import GATES, RUNTIME_CONFIG, Spec

from clusters.binaries import E2E, Binaries, find

_UP_SECONDS = 180.0
_SLOWEST_SECONDS = 1500.0
_SETTLED_SECONDS = 5.5
"""The node lifecycle controller may still taint a node that has just become ready; it looks every five seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where and how much."""
    group = parser.getgroup("upstream-e2e")
    group.addoption("--tier", choices=("embedded", "local"), default="embedded", help="kind of cluster")
    group.addoption(
        "--minutes", type=float, default=0.0, help="only the shortest specs, as many as fit (0: all)"
    )


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """Upstream's test binary of the version that is judged."""
    return find("1.37", [E2E], progress=lambda line: print(line, file=sys.stderr))  # noqa: T201


@pytest.fixture(scope="session")
def specs(request: pytest.FixtureRequest) -> list[Spec]:
    """The specs of the tests that this session selected."""
    found = (getattr(item, "callspec", None) for item in request.session.items)
    return [call.params["spec"] for call in found if call is not None and "spec" in call.params]


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's access to a cluster of two nodes with all gates that the specs are about."""
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "XDG_STATE_HOME": str(home)}
    command = [sys.executable, "-m", "drakit"]
    tier = request.config.getoption("--tier", "embedded")
    settings = ["--feature-gates", GATES, "--runtime-config", RUNTIME_CONFIG]
    if tier != "embedded":
        settings += ["--tier", tier]
    up = subprocess.run(
        [*command, "up", "--nodes", "2", "--no-driver", *settings],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_UP_SECONDS,
        check=False,
    )
    assert up.returncode == 0, up.stdout + up.stderr
    try:
        path = Path(home, "drakit", "clusters", "drakit", "kubeconfig")
        _settle(path)
        yield path
    finally:
        subprocess.run(
            [*command, "down"], env=environment, capture_output=True, timeout=_UP_SECONDS, check=True
        )


def _settle(kubeconfig: Path) -> None:
    """Wait until nodes have kept no taint for some time: specs skip themselves where one has any."""
    nodes = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(kubeconfig)))
    since = time.monotonic()
    deadline = since + _UP_SECONDS
    while time.monotonic() - since < _SETTLED_SECONDS:
        tainted = {
            node.metadata.name: node.spec.taints for node in nodes.list_node().items if node.spec.taints
        }
        if tainted:
            since = time.monotonic()
        assert time.monotonic() < deadline, f"nodes do not lose their taints: {tainted}"
        time.sleep(0.2)


@pytest.fixture(scope="session")
def outcomes(
    binaries: Binaries, specs: list[Spec], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """What came of each spec by name."""
    done = run(
        binaries.path(E2E),
        kubeconfig,
        [spec.name for spec in specs],
        tmp_path_factory.mktemp("e2e"),
        weights={spec.name: spec.seconds for spec in specs},
        seconds=_SLOWEST_SECONDS,
    )
    return {outcome.name: outcome for outcome in done}
