from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from clusters.descriptor import Descriptor
from conformance.contract.findings import Findings
from conformance.contract.plugin import CallFailed
from conformance.contract.registry import Registry
from node_api.gen import registration_pb2, registration_pb2_grpc

NAME = "own.example.com"


class Registration(registration_pb2_grpc.RegistrationServicer):
    def __init__(self, name: str) -> None:
        self.name = name

    def GetInfo(self, request: Any, context: Any) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(type="DRAPlugin", name=self.name)


@pytest.fixture
def folder() -> Iterator[Path]:
    # pytest's own folders have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="dr-", dir="/tmp") as path:
        yield Path(path)


@contextlib.contextmanager
def serving(path: Path, name: str) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(1))
    registration_pb2_grpc.add_RegistrationServicer_to_server(Registration(name), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def registry(folder: Path) -> Registry:
    node: Any = SimpleNamespace(paths=SimpleNamespace(registry=folder))
    return Registry(node, Descriptor(Path("d.yaml"), NAME, (), ()), Findings(), lambda: None)


def test_among_several_sockets_the_one_with_the_drivers_name_counts(folder: Path) -> None:
    (folder / "below").mkdir()
    own = folder / "below" / "own.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / "a-stale.sock"))
    with serving(folder / "b-other.sock", "other.example.com"), serving(own, NAME):
        assert registry(folder).look()[0] == own
        assert registry(folder).find()[1].name == NAME
        assert len(registry(folder).sockets()) == 3


def test_another_name_is_found_when_there_is_no_better(folder: Path) -> None:
    with serving(folder / "other.sock", "other.example.com"):
        assert registry(folder).look()[1].name == "other.example.com"


def test_a_socket_that_nobody_serves_gives_no_information(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(folder / "stale.sock"))
    with pytest.raises(CallFailed, match="UNAVAILABLE"):
        registry(folder).look()
