"""A whole cluster of `drakit up` for each version of kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubectl_kit import VERSIONS, Kubectl, Space, build

_UP_SECONDS = 120.0


@pytest.fixture(scope="session", params=VERSIONS)
def whole_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """kubectl as the administrator of a cluster of two nodes with four GPUs each."""
    binary = build(request.param)
    home = tmp_path_factory.mktemp("home")
    environment = {**os.environ, "XDG_STATE_HOME": str(home)}
    command = [sys.executable, "-m", "drakit"]
    up = subprocess.run(
        [*command, "up"], env=environment, capture_output=True, text=True, timeout=_UP_SECONDS, check=False
    )
    assert up.returncode == 0, up.stderr
    try:
        yield Kubectl(binary, Path(home, "drakit", "clusters", "drakit", "kubeconfig"), home)
    finally:
        subprocess.run(
            [*command, "down"], env=environment, capture_output=True, timeout=_UP_SECONDS, check=True
        )


_COUNT = iter(range(1000))


@pytest.fixture
def space(whole_cluster: Kubectl) -> Iterator[Space]:
    """A namespace for one test, which is gone soon after it."""
    name = f"w{next(_COUNT)}"
    whole_cluster("create", "namespace", name)
    whole_cluster("wait", "-n", name, "--for=create", "serviceaccount/default", "--timeout=20s")
    yield Space(whole_cluster, name)
    whole_cluster("-n", name, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
    whole_cluster("delete", "namespace", name, "--wait=false")
