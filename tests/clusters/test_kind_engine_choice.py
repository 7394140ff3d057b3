"""Which container engine is taken, and what is said when there is none. The docker command is a stand-in."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from clusters.kind import engine, private_engine
from clusters.kind.engine import Engine
from clusters.kind.errors import EngineError

pytestmark = pytest.mark.process

# What the real command says, by where its engine is.
DOCKER = """#!/bin/sh
echo "$DOCKER_HOST $*" >> "$LOG"
if [ "$1 $2" = "context inspect" ]; then echo "${CONTEXT:-unix:///context.sock}"; exit 0; fi
case "$DOCKER_HOST" in
*dead*) echo "Cannot connect to the Docker daemon at $DOCKER_HOST. Is the docker daemon running?" >&2; exit 1 ;;
*closed*) echo "permission denied while trying to connect to the Docker daemon socket at $DOCKER_HOST" >&2; exit 1 ;;
esac
case "$1" in
version) echo 28.2.2 ;;
fail) echo "Unable to find image" >&2; echo "docker: Error response from daemon: no such thing." >&2; exit 125 ;;
cat) cat ;;
*) echo "did $*" ;;
esac
"""


class Docker:
    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        self.path = folder / "docker"

    def calls(self) -> list[str]:
        return self._log.read_text().splitlines()


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """The only docker command in PATH; nothing in the environment says which engine is to be used."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTEXT", engine.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    found = Docker(tmp_path)
    found.path.write_text(DOCKER)
    found.path.chmod(0o755)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return found


@pytest.fixture
def no_private_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_the_engine_of_docker_host_is_taken(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://there:2376")
    found = engine.find(print)
    assert (found.host, found.identity, found.private, found.version) == (
        "tcp://there:2376",
        "tcp://there:2376",
        False,
        "28.2.2",
    )
    assert docker.calls() == ["tcp://there:2376 version --format {{.Server.Version}}"]


def test_the_engine_of_the_context_is_taken_and_named(docker: Docker) -> None:
    found = engine.find(print)
    assert found.host == "unix:///context.sock"
    assert found.run("ps", "-a") == "did ps -a\n"
    assert docker.calls()[-1] == "unix:///context.sock ps -a"


def test_the_environment_of_commands_names_the_engine_alone(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "podman")
    monkeypatch.setenv("KIND_EXPERIMENTAL_DOCKER_NETWORK", "mine")
    variables = Engine(str(docker.path), "unix:///a.sock").environment()
    assert variables["DOCKER_HOST"] == "unix:///a.sock"
    for name in ("DOCKER_CONTEXT", "KIND_EXPERIMENTAL_PROVIDER", "KIND_EXPERIMENTAL_DOCKER_NETWORK"):
        assert name not in variables


def test_a_failed_command_tells_its_last_lines(docker: Docker) -> None:
    found = engine.find(print)
    with pytest.raises(EngineError) as raised:
        found.run("fail", "--rm", "image", "more")
    assert str(raised.value) == (
        "docker fail --rm image: Unable to find image\ndocker: Error response from daemon: no such thing."
    )


def test_a_command_gets_its_input(docker: Docker) -> None:
    assert engine.find(print).run("cat", stdin="a\nb\n") == "a\nb\n"


def test_without_a_docker_command_it_is_said_how_to_get_one(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineError, match='there is no command "docker" in PATH; install Docker'):
        engine.find(print)


@pytest.mark.usefixtures("no_private_engine")
def test_without_an_engine_and_without_root_both_are_said(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT", "unix:///dead.sock")
    with pytest.raises(EngineError) as raised:
        engine.find(print)
    assert str(raised.value) == (
        "no container engine answers at unix:///dead.sock; start Docker, or let DOCKER_HOST name one that runs; "
        "a private engine needs root"
    )


def test_an_engine_that_was_named_is_wanted(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///dead.sock")
    with pytest.raises(EngineError, match=r"no container engine answers at unix:///dead\.sock"):
        engine.find(print)


def test_a_socket_of_others_is_said_with_what_helps(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT", "unix:///closed.sock")
    with pytest.raises(EngineError) as raised:
        engine.find(print)
    assert str(raised.value) == (
        "permission denied: this user may not use the container engine at unix:///closed.sock; run as root (sudo), "
        "or join the group of its socket: sudo usermod -aG docker $USER, and log in again"
    )


def test_another_choice_than_the_two_is_refused(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.ENVIRONMENT, "podman")
    with pytest.raises(EngineError, match='DRAKIT_ENGINE=podman: it is "given" or "private", or not set'):
        engine.find(print)


def test_the_given_engine_can_be_asked_for(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.ENVIRONMENT, "given")
    monkeypatch.setenv("CONTEXT", "unix:///dead.sock")
    with pytest.raises(EngineError, match="no container engine answers"):
        engine.find(print)


@pytest.mark.usefixtures("no_private_engine")
def test_the_private_engine_can_be_asked_for_and_needs_root(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engine.ENVIRONMENT, "private")
    with pytest.raises(EngineError, match=r"^a private engine needs root$"):
        engine.find(print)


def test_a_private_engine_names_the_programs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(private_engine, "_SBIN", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("runc", "iptables", "ip"):
        (tmp_path / name).touch(0o755)
    assert private_engine.missing() == (
        "a private engine needs dockerd, containerd (Debian and Ubuntu: apt install docker.io)"
    )


def test_an_identity_opens_the_same_engine_again(docker: Docker) -> None:
    assert engine.reopen("unix:///a.sock", print).host == "unix:///a.sock"
    with pytest.raises(EngineError, match=re.escape("unix:///dead.sock")):
        engine.reopen("unix:///dead.sock", print)


def test_the_home_of_the_private_engine_is_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(private_engine.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert private_engine.default_home() == Path("/c/drakit/engine")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert private_engine.default_home() == Path("/h/.cache/drakit/engine")
    monkeypatch.setenv(private_engine.ENVIRONMENT, "/e")
    assert private_engine.default_home() == Path("/e")
