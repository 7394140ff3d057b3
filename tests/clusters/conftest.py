"""Fixtures of the API server's tests, and of those that put a small driver before a kubelet."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver_harness import Http, connected
from small_driver import NAME, SOON, SmallDriver

from clusters.embedded.kubelet.plugins import Backoff, PluginManager, Timeouts
from clusters.proxies.grpc_proxy import PluginProxy


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    """An administrator's client of a server with default settings."""
    with connected() as client:
        yield client


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory for sockets, whose paths must be short."""
    made = Path(tempfile.mkdtemp(prefix="kp", dir="/tmp"))
    (made / "registry").mkdir()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def registry(root: Path) -> Path:
    """The registration directory that the kubelet looks at."""
    return root / "registry"


@pytest.fixture
def proxy(root: Path) -> Iterator[PluginProxy]:
    """A proxy between the driver's registration directory and one for the kubelet."""
    with PluginProxy(root / "registry", root / "kubelet", root / "px", poll_interval=0.01) as made:
        yield made


@pytest.fixture
def kubelet(registry: Path) -> Iterator[PluginManager]:
    """The plugin half of a kubelet with quick retries; the times of a real one are tested as data."""
    made = PluginManager(
        "node", registry, poll_interval=0.01, backoff=Backoff(0.05, 2, 1), timeouts=Timeouts(dial=2)
    )
    with made:
        yield made


@pytest.fixture
def driver(root: Path) -> Iterator[SmallDriver]:
    """A driver that is not started yet."""
    made = SmallDriver(root)
    yield made
    made.stop()


@pytest.fixture
def registered(kubelet: PluginManager, driver: SmallDriver) -> PluginManager:
    """The kubelet, which knows the running driver."""
    driver.start()
    kubelet.wait_registered(NAME, SOON)
    return kubelet
