"""One kind cluster for the whole session: two nodes with every gate of DRA on, kept as `--keep` keeps it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kind_kit import Drakit

from clusters.client import Client
from clusters.kind import engine as engines
from clusters.kind.engine import Engine
from drakit.state import Record, all_folders


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
