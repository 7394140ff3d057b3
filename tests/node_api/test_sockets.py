from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from node_api import sockets
from node_api.gen import registration_pb2, registration_pb2_grpc


class Registration(registration_pb2_grpc.RegistrationServicer):
    def __init__(self, name: str) -> None:
        self.name = name

    def GetInfo(
        self, request: registration_pb2.InfoRequest, context: grpc.ServicerContext
    ) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(name=self.name)


def server(name: str = "a") -> grpc.Server:
    made = grpc.server(futures.ThreadPoolExecutor(2))
    registration_pb2_grpc.add_RegistrationServicer_to_server(Registration(name), made)
    return made


def ask(path: Path) -> str:
    with sockets.channel(path) as channel:
        stub = registration_pb2_grpc.RegistrationStub(channel)
        return str(stub.GetInfo(registration_pb2.InfoRequest(), timeout=5).name)


@pytest.fixture
def directory() -> Iterator[Path]:
    # tmp_path is too long for socket names
    made = Path(tempfile.mkdtemp(prefix="ds", dir="/tmp"))
    yield made
    shutil.rmtree(made)


def leave_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(path))


def test_107_bytes_fit_and_108_do_not(directory: Path) -> None:
    room = sockets.MAX_PATH_BYTES - len(os.fspath(directory)) - 1
    with sockets.serve(server(), directory / ("x" * room)):
        assert ask(directory / ("x" * room)) == "a"
    with pytest.raises(
        sockets.SocketPathError, match=r"has 108 bytes, a Unix socket allows 107: use a shorter"
    ):
        sockets.serve(server(), directory / ("x" * (room + 1)))
    assert list(directory.iterdir()) == []


def test_the_limit_counts_bytes_not_characters(directory: Path) -> None:
    room = sockets.MAX_PATH_BYTES - len(os.fspath(directory)) - 1
    with pytest.raises(sockets.SocketPathError):
        sockets.check_socket_path(directory / ("é" * (room // 2 + 1)))


@pytest.mark.parametrize("name", ["plain.sock", "with space", "per%20cent", "a#b?c", "ünï"])
def test_any_file_name_works_on_both_sides(directory: Path, name: str) -> None:
    with sockets.serve(server(), directory / name):
        assert [entry.name for entry in directory.iterdir()] == [name]
        assert ask(directory / name) == "a"


def test_modes_of_socket_and_new_directory(directory: Path) -> None:
    path = directory / "new" / "s"
    with sockets.serve(server(), path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o750


def test_a_stale_socket_is_replaced(directory: Path) -> None:
    path = directory / "s"
    leave_stale(path)
    assert sockets.is_stale(path)
    with sockets.serve(server(), path):
        assert not sockets.is_stale(path)
        assert ask(path) == "a"
    assert not path.exists()


@pytest.mark.parametrize("killed_before", ["Path.chmod", "Path.rename"])
def test_what_a_process_leaves_that_is_killed_while_it_starts_goes_at_the_next_start(
    directory: Path, killed_before: str
) -> None:
    child = f"""if True:
        import os, signal, sys
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        import grpc
        from node_api import sockets
        {killed_before} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        sockets.serve(grpc.server(ThreadPoolExecutor(1)), sys.argv[1])
    """
    path, other = directory / "s", directory / ".other"
    leave_stale(other)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", child, path], check=False)
        assert done.returncode == -signal.SIGKILL
    assert len(list(directory.iterdir())) == 2, "the first one has gone"
    with sockets.serve(server(), path):
        assert ask(path) == "a"
        assert sorted(directory.iterdir()) == [other, path]


def test_the_socket_of_a_server_is_present_until_somebody_removes_it(directory: Path) -> None:
    with sockets.serve(server(), directory / "s") as served:
        assert served.present
        (directory / "s").unlink()
        assert not served.present
        leave_stale(directory / "s")
        assert not served.present


def test_a_live_socket_is_not_taken_over(directory: Path) -> None:
    path = directory / "s"
    with sockets.serve(server("first"), path):
        with pytest.raises(sockets.SocketInUseError, match="already listens"):
            sockets.serve(server("second"), path)
        assert ask(path) == "first"


@pytest.mark.parametrize("kind", ["file", "directory", "link to a stale socket"])
def test_what_is_not_a_socket_is_left_alone(directory: Path, kind: str) -> None:
    path = directory / "s"
    if kind == "file":
        path.write_text("data")
    elif kind == "directory":
        path.mkdir()
    else:
        leave_stale(directory / "target")
        path.symlink_to(directory / "target")
    before = sorted(entry.name for entry in directory.iterdir())
    assert not sockets.is_stale(path)
    with pytest.raises(sockets.SocketPathError, match="not a socket"):
        sockets.serve(server(), path)
    assert sorted(entry.name for entry in directory.iterdir()) == before


def test_removing_an_absent_socket_is_no_error(directory: Path) -> None:
    assert sockets.remove_stale(directory / "s") is False
    assert sockets.is_stale(directory / "s") is False


def test_an_old_server_does_not_remove_its_successors_socket(directory: Path) -> None:
    path = directory / "s"
    old = sockets.serve(server("old"), path)
    path.unlink()
    with sockets.serve(server("new"), path):
        old.close()
        assert ask(path) == "new"


def test_the_authority_is_localhost(directory: Path) -> None:
    # read the HTTP/2 frames by hand: the Python server does not show the authority
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        listener.listen()
        listener.settimeout(5)
        with sockets.channel(path) as channel:
            stub = registration_pb2_grpc.RegistrationStub(channel)
            call = stub.GetInfo.future(registration_pb2.InfoRequest(), timeout=5)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5)
                # an empty SETTINGS frame lets the client go on
                connection.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                seen = b""
                while b"GetInfo" not in seen:
                    seen += connection.recv(4096)
                call.cancel()
    # gRPC sends header strings without Huffman coding: ":authority" is entry 1 of HPACK's static table
    assert b"localhost" in seen
    assert b"%2F" not in seen


def test_a_new_channel_does_not_wait_for_an_earlier_failure(directory: Path) -> None:
    path = directory / "s"
    with sockets.channel(path) as failed:
        with pytest.raises(grpc.RpcError):
            registration_pb2_grpc.RegistrationStub(failed).GetInfo(registration_pb2.InfoRequest(), timeout=5)
        with sockets.serve(server(), path):
            assert ask(path) == "a"
