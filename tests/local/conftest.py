"""A whole cluster of `drakit up` for each version of kubectl, and which tests run beside which.

With `-n 3 --dist loadscope` tests that share a cluster or a server run one after the other in one process, and every
other test is free; what takes longest begins first. Plays of kubectl differ by chance then: CI runs one test at a time.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubectl_kit import VERSIONS, Kubectl, Space, drakit_up
from xdist.scheduler import LoadScopeScheduling

_LONGEST: Final = (
    "test_kubelet_differential",
    "test_kubectl_both",
    "test_local_conformance",
    "test_api_differential",
    "test_local_chaos",
    "test_validation_differential",
    "test_go_clients",
    "test_cri_kubelet",
    "test_local_cluster",
    "test_kubectl_cluster",
    "test_kubectl_workloads",
)


_GROUPS: Final = pytest.StashKey[Path]()
_WHERE: Final = "drakit_groups"


def pytest_configure(config: pytest.Config) -> None:
    """Have a place where the processes say which test belongs to which group."""
    config.stash[_GROUPS] = Path(tempfile.mkdtemp(prefix="groups-"), "groups.json")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_GROUPS].parent)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of the place."""
    node.workerinput[_WHERE] = str(node.config.stash[_GROUPS])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group the tests by what they share, and sort them; other environments run some of them in their own way."""
    where = getattr(config, "workerinput", {}).get(_WHERE)
    if where is None:
        return
    ranks = {name: rank for rank, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))
    own = config.stash[_GROUPS]
    own.write_text(json.dumps({item.nodeid: group for item in items if (group := _group(item))}))
    # All processes say the same; which is the last one does not matter.
    own.replace(where)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Send what shares something to one process, in the order in which it was collected."""
    config.option.loadscopereorder = False
    return _Scheduling(config, log)


class _Scheduling(LoadScopeScheduling):
    """By the groups that the processes have said; `--dist loadgroup` of xdist 3.8 sees no groups with pytest 9.2."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._groups: dict[str, str] = {}

    def schedule(self) -> None:
        """Begin."""
        self._groups = json.loads(self.config.stash[_GROUPS].read_text())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._groups.get(nodeid, nodeid)


def _group(item: pytest.Item) -> str:
    """The file or the session, and the parameters of what is shared in it; empty for a test that shares nothing."""
    assert isinstance(item, pytest.Function)
    found = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    # Fixtures of pytest itself have no place.
    scopes = {fixture.argname: fixture.scope for fixture in found if fixture.baseid}
    shared = {name for name, scope in scopes.items() if scope != "function"}
    if not shared:
        return ""
    place = item.path.stem if "module" in scopes.values() else "session"
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return " ".join([place, *(str(value) for name, value in parameters.items() if name in shared)])


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
