"""How kind clusters are made and taken away: with stand-ins for docker and kind that write down how they are called.

The API server is an embedded one, in the place of that of the nodes.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.kind import binary, checks
from clusters.kind.cluster import KindCluster
from clusters.kind.engine import Engine
from clusters.kind.tools import Tools

pytestmark = pytest.mark.process

NODES = tuple(NodeSpec() for _ in range(2))

STAND_IN = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path

home = Path(__file__).parent
program, words = Path(__file__).name, sys.argv[1:]
environment = {{key: os.environ.get(key, "") for key in ("DOCKER_HOST", "KIND_EXPERIMENTAL_DOCKER_NETWORK")}}
with (home / "calls").open("a") as calls:
    calls.write(json.dumps([program, words, environment]) + "\\n")
answers = json.loads((home / "answers.json").read_text())
made = home / "made"
"""

DOCKER = (
    STAND_IN
    + """
if words[0] == "version":
    print("29.1.0")
elif words[0] == "ps" and made.exists():
    print("one\\ntwo")
elif words[0] == "rm":
    made.unlink()
elif words[:2] == ["network", "ls"]:
    print("three")
elif words[0] == "exec" and "drakit-admin" in words:
    print(answers["token"])
elif words[0] == "exec" and words[2] == "stat":
    sys.exit("no such file")
"""
)

KIND = (
    STAND_IN
    + """
if words[:2] == ["create", "cluster"]:
    made.touch()
    if answers["fails"]:
        print(" \\u2717 Starting control-plane")
        sys.exit("ERROR: failed to init node with kubeadm\\nmain.main\\n\\truntime/asm_amd64.s:1771")
    print(" \\u2713 Starting control-plane")
    Path(words[words.index("--kubeconfig") + 1]).write_text(answers["kubeconfig"])
elif words[:2] == ["export", "logs"]:
    Path(words[2], "kubelet.log").touch()
"""
)


@dataclass
class World:
    """The stand-ins, the API server behind them, and what they were called with."""

    folder: Path
    tools: Tools
    api: EmbeddedCluster
    state: Path

    def answer(self, *, fails: bool = False) -> None:
        cluster = {
            "server": self.api.url,
            "certificate-authority-data": base64.b64encode((self.api.root / "ca.pem").read_bytes()).decode(),
        }
        answers = {
            "token": self.token(),
            "fails": fails,
            "kubeconfig": yaml.safe_dump({"clusters": [{"name": "kind-x", "cluster": cluster}]}),
        }
        (self.folder / "answers.json").write_text(json.dumps(answers))

    def token(self) -> str:
        file = self.state / "kubeconfig"
        self.api.write_kubeconfig(file)
        return str(yaml.safe_load(file.read_text())["users"][0]["user"]["token"])

    def register(self, cluster: KindCluster) -> None:
        """Do what kubelets and controllers would."""
        api = self.api.client()
        for number, node in enumerate(cluster.nodes):
            name = node.name
            body = {"metadata": {"name": name}, "spec": {"podCIDR": f"10.244.{number}.0/24"}}
            api.create("v1", "nodes", body)
            status = {
                "addresses": [{"type": "InternalIP", "address": f"172.19.0.{number + 2}"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            api.patch("v1", "nodes", name, {"status": status}, subresource="status")
            # The API server gives every new Node one.
            api.patch("v1", "nodes", name, {"spec": {"taints": None}})
        account = {"metadata": {"name": "default"}}
        if api.find("v1", "serviceaccounts", "default", "default") is None:
            api.create("v1", "serviceaccounts", account, "default")

    def calls(self, program: str) -> list[tuple[list[str], dict[str, str]]]:
        lines = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [(words, environment) for name, words, environment in lines if name == program]

    def words(self, program: str) -> list[str]:
        return [" ".join(words) for words, _ in self.calls(program)]

    def records(self) -> list[str]:
        return [path.stem for path in (self.state / "drakit" / "kind").glob("*.json")]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder, state = tmp_path / "bin", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    for name, text in (("docker", DOCKER), ("kind", KIND)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "answers.json").write_text("{}")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    engine = Engine(str(folder / "docker"), "unix:///stand/in.sock")
    tools = Tools(
        engine, binary.Kind(folder / "kind", "v0.33.0"), "kindest/node:v1.37.0", Path("/images/probe.tar")
    )
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as api:
        made = World(folder, tools, api, state)
        made.answer()
        yield made


def test_a_cluster_is_described_written_down_made_and_taken_away(world: World) -> None:
    said: list[str] = []
    with KindCluster(ClusterSpec(nodes=NODES), world.tools, progress=said.append) as cluster:
        name, root = cluster.name, cluster.root
        assert re.fullmatch("drakit-[0-9a-f]{6}", name)
        assert [node.name for node in cluster.nodes] == [f"{name}-control-plane", f"{name}-worker"]
        assert world.records() == [name]
        create, load = world.calls("kind")
        assert create[0] == [
            "create",
            "cluster",
            *("--name", name),
            *("--image", "kindest/node:v1.37.0"),
            *("--config", f"{root}/kind.yaml"),
            *("--kubeconfig", f"{root}/kind.kubeconfig"),
            "--retain",
            *("--wait", "0s"),
        ]
        assert create[1] == {
            "DOCKER_HOST": "unix:///stand/in.sock",
            "KIND_EXPERIMENTAL_DOCKER_NETWORK": name,
        }
        assert load[0] == ["load", "image-archive", "/images/probe.tar", "--name", name]
        assert len(yaml.safe_load((root / "kind.yaml").read_text())["nodes"]) == 2
        assert said == ["kind: Starting control-plane"]
        for number in (1, 2):
            assert stat.S_IMODE((root / f"n{number}").stat().st_mode) == 0o700
    docker = world.words("docker")
    assert docker.index(f"network create --label io.drakit.cluster={name} {name}") < docker.index(
        "rm --force --volumes one two"
    )
    assert docker[-1] == "network rm three"
    assert world.records() == []
    assert not root.exists()


def test_a_cluster_that_cannot_be_made_leaves_its_logs_and_nothing_else(world: World, tmp_path: Path) -> None:
    world.answer(fails=True)
    with pytest.raises(ClusterError) as error:
        KindCluster(ClusterSpec(nodes=NODES), world.tools)
    text = str(error.value)
    assert "kind create cluster ended with 1" in text
    assert "failed to init node with kubeadm" in text
    # Where kubeadm was says nothing to its user.
    assert "main.main" not in text
    found = re.search("the logs of the cluster are in (.*)", text)
    assert found is not None
    assert [path.name for path in Path(found[1]).iterdir()] == ["kubelet.log"]
    assert world.words("docker")[-2:] == [
        f"network ls --quiet --no-trunc --filter label=io.drakit.cluster={name_of(world)}",
        "network rm three",
    ]
    assert world.records() == []
    for path in Path(found[1]).iterdir():
        path.unlink()
    Path(found[1]).rmdir()


def test_a_port_that_is_taken_is_told_before_anything_is_made(world: World) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ClusterError, match=f"127.0.0.1:{port}: Address already in use; choose another port"
        ):
            KindCluster(ClusterSpec(nodes=NODES), world.tools, port=port)
    assert world.calls("kind") == []


def name_of(world: World) -> str:
    create = world.calls("kind")[0][0]
    return create[create.index("--name") + 1]


def wait_ready(world: World, spec: ClusterSpec) -> str:
    """Why such a cluster is not well; its exported logs are removed."""
    with KindCluster(spec, world.tools) as cluster:
        world.register(cluster)
        with pytest.raises(ClusterError) as error:
            cluster.wait_ready(5.0)
    text, _, folder = str(error.value).partition("; the logs of the cluster are in ")
    Path(folder, "kubelet.log").unlink()
    Path(folder).rmdir()
    return text


def test_a_node_image_of_another_version_is_told(world: World) -> None:
    text = wait_ready(world, ClusterSpec(version="1.36", nodes=NODES[:1]))
    assert text == "the cluster is to be Kubernetes 1.36, and node image kindest/node:v1.37.0 is 1.37.2"


def test_a_scheduler_that_does_nothing_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_PROBE_SECONDS", 0.3)
    text = wait_ready(world, ClusterSpec(nodes=NODES))
    assert "a Pod does not run within 0.3 s" in text
    assert "the scheduler has not said a word about it" in text
    # Without a network plugin each node is told the way to the Pods of the other.
    routes = [words for words in world.words("docker") if "ip route" in words]
    name = name_of(world)
    assert routes == [
        f"exec {name}-control-plane sh -c ip route replace 10.244.1.0/24 via 172.19.0.3",
        f"exec {name}-worker sh -c ip route replace 10.244.0.0/24 via 172.19.0.2",
    ]


def test_components_have_names_and_logs(world: World) -> None:
    with KindCluster(ClusterSpec(nodes=NODES), world.tools) as cluster:
        name = cluster.name
        assert set(cluster.components()) == {
            *("etcd", "apiserver", "controller-manager", "scheduler"),
            *(
                f"{kind}-{name}-{node}"
                for kind in ("kubelet", "runtime")
                for node in ("control-plane", "worker")
            ),
        }
        with pytest.raises(ValueError, match='no component "shedular", did you mean "scheduler"'):
            cluster.component("shedular")
        once = cluster.log_commands()[f"kubelet-{name}-worker"].once
        assert once[1:5] == ("--host", "unix:///stand/in.sock", "exec", f"{name}-worker")
        with pytest.raises(FileNotFoundError, match="/dev/fakegpu0"):
            cluster.nodes[1].stat("/dev/fakegpu0")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            ClusterSpec(nodes=(NodeSpec(name="gpu-1"),)),
            "nodes of a kind cluster are named by kind; gpu-1 cannot be",
        ),
        (ClusterSpec(nodes=(NodeSpec(capacity=(("cpu", "4"),)),)), "have the cpu of this machine"),
        (ClusterSpec(nodes=NODES, scheduler_config="- 1"), "must be a KubeSchedulerConfiguration"),
        (ClusterSpec(nodes=NODES, gates=(("DRANew", True),)), "unrecognized feature gate: DRANew"),
    ],
)
def test_what_kind_cannot_make_is_told_before_anything_is_made(
    world: World, spec: ClusterSpec, said: str
) -> None:
    with pytest.raises((ClusterError, ValueError), match=said):
        KindCluster(spec, world.tools)
    assert world.calls("kind") == []
