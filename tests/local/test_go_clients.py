"""Unmodified Go clients against the embedded API server: client-go, and a driver on upstream's kubeletplugin helper."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from go_kit import GO_DRIVER, TESTS, about_drivers, build_driver, go

from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]

CLIENT_TESTS = sorted(
    name
    for path in (TESTS / "goclient").glob("*_test.go")
    for name in re.findall(r"^func (Test\w+)\(", path.read_text(), re.MULTILINE)
)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an administrator of a fresh server."""
    tokens = StaticTokens({"admin": User("admin", groups=("system:masters",))})
    server = ServerThread(ServerConfig(tokens=tokens)).start()
    path = tmp_path_factory.mktemp("kubeconfig") / "admin.yaml"
    authority = base64.b64encode(server.ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": server.url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "admin", "user": {"token": "admin"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "admin"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    yield path
    server.stop()


@pytest.fixture(scope="module")
def client_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled tests of tests/goclient."""
    binary = tmp_path_factory.mktemp("goclient") / "goclient.test"
    go("test", "-c", "-o", str(binary), ".", folder=TESTS / "goclient")
    return binary


@pytest.mark.parametrize("name", CLIENT_TESTS)
def test_client_go(client_tests: Path, kubeconfig: Path, name: str) -> None:
    done = subprocess.run(
        [str(client_tests), "-test.v", "-test.timeout=100s", f"-test.run=^{name}$"],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"--- PASS: {name}" in done.stdout


def test_driver_on_upstreams_helper_passes_the_contract(tmp_path: Path) -> None:
    """A driver written by others' rules gets no false alarm."""
    words = ["drakit", "conformance", str(build_driver()), "--report", str(tmp_path), *about_drivers()]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_driver_says_what_is_missing(tmp_path: Path) -> None:
    binary = tmp_path / "godriver"
    go("build", "-o", str(binary), ".", folder=GO_DRIVER)
    done = subprocess.run(
        [str(binary), "--driver-name=d.example.com"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is missing" in done.stderr
