"""One kind cluster for the whole session: two nodes with every gate of DRA on, kept as `--keep` keeps it."""

from __future__ import annotations

import base64
import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kind_kit import Drakit

from clusters.client import Client
from clusters.kind import engine as engines
from clusters.kind.engine import Engine
from drakit.state import Record, all_folders

ON_THE_SHARED_CLUSTER = (
    "test_kind_cluster.py",
    "test_kind_conformance.py",
    "test_kind_daemonset.py",
    "test_kind_existing.py",
    "test_kind_images.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """One process has the session's cluster, the others take what is left, test by test."""
    if config.getvalue("dist") != "loadscope":
        return None
    scheduling: object = importlib.import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    setattr(scheduling, "_split_scope", _scope)  # noqa: B010 - nothing is known of its type
    return scheduling


def _scope(test: str) -> str:
    file = Path(test.partition("::")[0]).name
    if file in ON_THE_SHARED_CLUSTER:
        return "shared"
    # Tests of the engine look for processes by their names.
    return file if file == "test_kind_engine.py" else test


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with engines.find(print) as found:
        yield found


@pytest.fixture(scope="session")
def shared(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drakit]:
    """The command where the session's cluster is."""
    state = tmp_path_factory.mktemp("state")
    with (
        tempfile.TemporaryDirectory(prefix="", dir="/tmp") as temporary,
        pytest.MonkeyPatch.context() as patch,
    ):
        drakit = Drakit(state, Path(temporary), engine)
        patch.setenv("XDG_STATE_HOME", str(state))
        yield drakit
        clusters = drakit.clusters()
        drakit.run("down", "--all")
        drakit.check_clean(clusters)


@pytest.fixture(scope="session")
def record(shared: Drakit) -> Record:
    """The session's cluster: the one that `drakit conformance --tier kind --feature-gates all --keep` uses."""
    words = ("--tier", "kind", "--feature-gates", "all", "--keep", "--focus", "ALC-CDI-01")
    shared.run("conformance", "driver/reference.yaml", *words)
    [folder] = all_folders()
    found = folder.record()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def api(record: Record, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An administrator of the session's cluster."""
    document = yaml.safe_load(Path(record.kubeconfig).read_text())
    authority = tmp_path_factory.mktemp("api") / "ca.pem"
    authority.write_bytes(base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]))
    client = Client(record.server, authority, document["users"][0]["user"]["token"])
    yield client
    client.close()
