"""Fixtures of the driver's process tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import driver_world
import pytest


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[driver_world.Server]:
    with driver_world.server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def world(api_server: driver_world.Server, tmp_path: Path) -> Iterator[driver_world.World]:
    """A node whose driver is not started yet."""
    world = driver_world.World(api_server, tmp_path)
    yield world
    world.close()
