"""The process that serves the runtimes of a cluster."""

from __future__ import annotations

import asyncio
import json
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cri_kit import PATIENCE, connected

from clusters.local.cri.config import ConfigError, NodeConfig, load, to_document
from node_api.gen import cri_v1_pb2 as pb

pytestmark = pytest.mark.process


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="crip"))
    yield path
    shutil.rmtree(path)


def node(folder: Path, name: str, network: int) -> NodeConfig:
    return NodeConfig(
        name, folder / f"{name}.sock", (folder / "cdi",), folder / name, f"10.244.{network}.0/24"
    )


def write(folder: Path, *nodes: NodeConfig) -> Path:
    file = folder / "nodes.json"
    file.write_text(json.dumps(to_document(nodes)))
    return file


def start(file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "clusters.local.cri", "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 3 * PATIENCE)[0], "says nothing"
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=3 * PATIENCE)
    return process.returncode, errors


def sandboxes(socket: Path, make: str = "") -> list[str]:
    """Names of the sandboxes on a node, after one was made."""

    async def ask() -> list[str]:
        async with connected(socket) as (runtime, _):
            if make:
                metadata = pb.PodSandboxMetadata(name=make, uid=make, namespace="default")
                config = pb.PodSandboxConfig(metadata=metadata)
                await runtime.RunPodSandbox(pb.RunPodSandboxRequest(config=config))
            found = await runtime.ListPodSandbox(pb.ListPodSandboxRequest())
            return [one.metadata.name for one in found.items]

    return asyncio.run(ask())


def test_nodes_are_apart_come_and_go_and_end_with_the_process(folder: Path) -> None:
    first, second, third = (node(folder, f"n{number}", number) for number in (1, 2, 3))
    file = write(folder, first, second)
    process = start(file)
    try:
        assert line(process) == "ready"
        assert first.socket.stat().st_mode & 0o777 == 0o600
        assert sandboxes(first.socket, "a") == ["a"]
        assert sandboxes(second.socket) == []
        write(folder, first, third)
        process.send_signal(signal.SIGHUP)
        assert line(process) == "ready"
        assert not second.socket.exists()
        assert sandboxes(first.socket) == ["a"]
        assert sandboxes(third.socket) == []
    finally:
        code, errors = end(process)
    assert (code, errors) == (0, "")
    assert not first.socket.exists()
    assert not third.socket.exists()


def test_what_a_killed_predecessor_left_is_replaced(folder: Path) -> None:
    only = node(folder, "n1", 1)
    file = write(folder, only)
    process = start(file)
    assert line(process) == "ready"
    sandboxes(only.socket, "a")
    end(process, signal.SIGKILL)
    assert only.socket.exists()
    process = start(file)
    try:
        assert line(process) == "ready"
        assert sandboxes(only.socket) == []
    finally:
        assert end(process)[0] == 0


def test_a_socket_that_is_served_already_is_left_alone(folder: Path) -> None:
    only = node(folder, "n1", 1)
    process = start(write(folder, only))
    try:
        assert line(process) == "ready"
        other = start(folder / "nodes.json")
        _, errors = other.communicate(timeout=3 * PATIENCE)
        assert other.returncode == 2
        assert f"a process already listens on '{only.socket}'" in errors
        assert "Traceback" not in errors
        assert sandboxes(only.socket) == []
    finally:
        end(process)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", 'must be an object with the one key "nodes"'),
        ('{"nodes": {}}', "nodes: must be a list"),
        ('{"nodes": [{"name": "a"}]}', "nodes[0]: must be an object with the keys name, socket, cdi_dirs"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_told(folder: Path, text: str, problem: str) -> None:
    file = folder / "nodes.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as told:
        load(file)
    assert str(told.value).startswith(f"{file}: ")
    assert problem in str(told.value)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("cdi_dirs", "x", "nodes[0].cdi_dirs: must be a list of strings"),
        ("root", "", "nodes[0].root: must be a string that is not empty"),
        ("socket", "/" + "x" * 200, "a Unix socket allows 107"),
        ("pod_cidr", "fd00::/64", "nodes[0]: "),
        ("pod_cidr", "10.0.0.1/24", "has host bits set"),
    ],
)
def test_a_field_that_cannot_be_used_is_told(folder: Path, field: str, value: str, problem: str) -> None:
    document = to_document((node(folder, "n1", 1),))
    document["nodes"][0][field] = value
    file = folder / "nodes.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as told:
        load(file)
    assert problem in str(told.value)


def test_nodes_must_differ(folder: Path) -> None:
    one = node(folder, "n1", 1)
    with pytest.raises(ConfigError, match="two have the name n1"):
        load(write(folder, one, one))
