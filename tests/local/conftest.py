"""A whole cluster of `drakit up` for each version of kubectl."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubectl_kit import VERSIONS, Kubectl, Space, drakit_up


@pytest.fixture(scope="session", params=VERSIONS)
def whole_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubectl]:
    """kubectl as the administrator of a cluster of two nodes with four GPUs each."""
    with drakit_up(tmp_path_factory.mktemp("home"), request.param, "embedded") as found:
        yield found


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
