"""What kubectl prints when it is given the manifests and the commands of the seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubectl_kit import Kubectl, build
from seeds_api import CATS, CATS_NODE, DRA, GPU_NODE, NODES, NVIDIA, eventually
from seeds_kit import World, nvidia_driver

from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]

MANIFESTS = Path(__file__).parents[1] / "seeds" / "manifests"
UUID = "GPU-c8133a35-9d03-a6b2-31dd-260000000000"
NO_MATCH = 'no matches for kind "{}" in version "resource.k8s.io/v1beta1"\nensure CRDs are installed first\n'
DEPRECATED = "Warning: resource.k8s.io/v1beta1 {} is deprecated in v1.35+, unavailable in v1.38+\n"


def manifest(name: str) -> str:
    """The path of a manifest."""
    return str(MANIFESTS / f"{name}.yaml")


def connect(cluster: EmbeddedCluster, home: Path) -> Kubectl:
    """kubectl 1.37 as the administrator of a cluster."""
    config = home / "kubeconfig"
    cluster.write_kubeconfig(config)
    return Kubectl(build("v1.37"), config, home)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(ClusterSpec(nodes=NODES, kubelet=(("syncFrequency", "1s"),))) as made:
        made.wait_ready(90)
        yield made


@pytest.fixture(scope="module")
def kubectl(cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """kubectl on a whole cluster with default settings."""
    return connect(cluster, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def beta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on an API server that also serves v1beta1."""
    spec = ClusterSpec(control_plane=False, runtime_config=(("resource.k8s.io/v1beta1", True),))
    with EmbeddedCluster(spec) as made:
        yield connect(made, tmp_path_factory.mktemp("beta"))


@pytest.fixture
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    made = World(cluster)
    try:
        yield made.begin()
    finally:
        made.end()


# Manifests as written


@pytest.mark.seed("M01")
def test_pinned_pod_is_no_yaml(kubectl: Kubectl) -> None:
    path = manifest("cats-pinned-pod.as-written")
    result = kubectl.run("create", "-f", path)
    assert result.err == (
        f"error: error parsing {path}: error converting YAML to JSON: yaml: line 10: could not find expected ':'\n"
    )
    assert (result.code, result.out) == (1, "")


@pytest.mark.seed("M06", "S001-12")
def test_device_class_of_a_version_that_is_not_served(kubectl: Kubectl, beta: Kubectl) -> None:
    path = manifest("gpu-device-class.as-written")
    result = kubectl.run("create", "-f", path)
    assert result.code == 1
    assert result.err == (
        f'error: resource mapping not found for name: "gpu.example.com" namespace: "" from "{path}": '
        + NO_MATCH.format("DeviceClass")
    )
    result = beta("create", "-f", path)
    assert result.out == "deviceclass.resource.k8s.io/gpu.example.com created\n"
    assert result.err == DEPRECATED.format("DeviceClass")


@pytest.mark.seed("M10", "S002-16")
def test_the_cats_block_is_read_as_far_as_its_second_separator(kubectl: Kubectl, beta: Kubectl) -> None:
    path = manifest("cats-all.as-written")
    parsing = (
        f"error parsing {path}: error converting YAML to JSON: yaml: line 17: could not find expected ':'\n"
    )
    result = kubectl.run("create", "-f", path)
    assert result.err == (
        f'resource mapping not found for name: "" namespace: "" from "{path}": '
        + NO_MATCH.format("DeviceClass")
        + parsing
    )
    result = beta.run("create", "-f", path)
    assert result.code == 1
    assert parsing in result.err
    assert 'strict decoding error: unknown field "name"' in result.err


@pytest.mark.seed("M11")
def test_cats_class_has_its_name_in_the_wrong_place(kubectl: Kubectl, beta: Kubectl) -> None:
    path = manifest("cats-device-class.as-written")
    assert kubectl.run("create", "-f", path).err == (
        f'error: resource mapping not found for name: "" namespace: "" from "{path}": '
        + NO_MATCH.format("DeviceClass")
    )
    assert beta.run("create", "-f", path).err == DEPRECATED.format("DeviceClass") + (
        f'Error from server (BadRequest): error when creating "{path}": DeviceClass in version "v1beta1" cannot be '
        'handled as a DeviceClass: strict decoding error: unknown field "name"\n'
    )
    ignoring = beta.run("create", "--validate=ignore", "-f", path)
    assert ignoring.err == (
        DEPRECATED.format("DeviceClass")
        + 'The DeviceClass "" is invalid: metadata.name: Required value: name or generateName is required\n'
    )


@pytest.mark.seed("M12")
def test_cats_template_of_a_version_that_is_not_served(kubectl: Kubectl, beta: Kubectl) -> None:
    path = manifest("cats-claim-template.as-written")
    assert kubectl.run("create", "-f", path).err.endswith(NO_MATCH.format("ResourceClaimTemplate"))
    result = beta("create", "-f", path)
    assert result.out == "resourceclaimtemplate.resource.k8s.io/large-black-cat-claim-template created\n"
    assert result.err == DEPRECATED.format("ResourceClaimTemplate")


@pytest.mark.seed("M07", "M08", "M09")
def test_refusals_of_the_server(kubectl: Kubectl) -> None:
    path = manifest("gpu-slice.as-written")
    assert kubectl.run("create", "-f", path).err == (
        f'Error from server (BadRequest): error when creating "{path}": ResourceSlice in version "v1" cannot be '
        "handled as a ResourceSlice: json: cannot unmarshal string into Go struct field "
        "DeviceAttribute.spec.devices.attributes.int of type int64\n"
    )
    for name in ("topo-gpu-claim", "topo-gpu-pod"):
        path = manifest(f"{name}.as-written")
        assert kubectl.run("create", "-f", path).err == (
            f'Error from server (NotFound): error when creating "{path}": namespaces "gpu-claim" not found\n'
        )
    assert kubectl.run("create", "-n", "default", "-f", path).err == (
        'error: the namespace from the provided object "gpu-claim" does not match the namespace "default". You must '
        "pass '--namespace=gpu-claim' to perform this operation.\n"
    )


@pytest.mark.seed("M19")
def test_the_listed_slice_is_refused_for_its_name_alone(kubectl: Kubectl, world: World) -> None:
    path = manifest("nvidia-gpu-slice.as-written")
    name = "192.168.2.8-gpu.nvidia.com-t***"
    assert kubectl.run("create", "-f", path).err.startswith(
        f'The ResourceSlice "{name}" is invalid: metadata.name: Invalid value: "{name}": a lowercase RFC 1123 '
        "subdomain must consist of "
    )
    listing = yaml.safe_load(Path(path).read_text())
    legal = listing["items"][0]["metadata"]["name"] = name.replace("***", "1234")
    created = kubectl("create", "-f", "-", text=yaml.safe_dump(listing))
    assert created.out == f"resourceslice.resource.k8s.io/{legal} created\n"
    # Its owner has a UID that no Node has.
    world.gone("ResourceSlice", legal)


# Outputs of commands


@pytest.mark.seed("C01", "S002-40", "S002-41")
def test_get_deviceclasses_as_a_probe(
    kubectl: Kubectl, world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = kubectl.run("get", "deviceclasses")
    assert (empty.code, empty.out, empty.err) == (0, "", "No resources found\n")
    world.submit("cats-device-class")
    listed = kubectl("get", "deviceclasses").rows
    assert listed[0].split() == ["NAME", "AGE"]
    assert listed[1].split()[0] == "resource.example.com"
    spec = ClusterSpec(control_plane=False, runtime_config=(("resource.k8s.io/v1", False),))
    with EmbeddedCluster(spec) as without:
        missing = connect(without, tmp_path_factory.mktemp("none")).run("get", "deviceclasses")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err == 'error: the server doesn\'t have a resource type "deviceclasses"\n'


@pytest.mark.seed("C02", "S004-13")
def test_api_resources(kubectl: Kubectl) -> None:
    """Differs: there are five with v1, not four."""
    rows = [row.split() for row in kubectl("api-resources", "--api-group=resource.k8s.io").rows]
    assert rows == [
        ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"],
        ["deviceclasses", DRA, "false", "DeviceClass"],
        ["devicetaintrules", DRA, "false", "DeviceTaintRule"],
        ["resourceclaims", DRA, "true", "ResourceClaim"],
        ["resourceclaimtemplates", DRA, "true", "ResourceClaimTemplate"],
        ["resourceslices", DRA, "false", "ResourceSlice"],
    ]


@pytest.mark.seed("C03")
def test_a_pod_before_its_claims_are_prepared(kubectl: Kubectl, world: World) -> None:
    world.submit("cats-slice", "cats-all")
    world.event("pod-with-cats", "FailedPrepareDynamicResources")
    eventually(
        lambda: world.get("Pod", "pod-with-cats")["status"].get("containerStatuses"), "the kubelet tells it"
    )
    rows = kubectl("get", "pods", "-o", "wide", "-n", world.namespace).rows
    assert re.split(r"  +", rows[0]) == [
        "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES",
    ]  # fmt: skip
    columns = rows[1].split()
    assert columns[:4] == ["pod-with-cats", "0/2", "ContainerCreating", "0"]
    assert columns[5:] == ["<none>", CATS_NODE, "<none>", "<none>"]
    world.driver(CATS, CATS_NODE)
    world.phase("pod-with-cats")


class Deployed:
    """The workload of seed 004 while it runs."""

    def __init__(self, world: World, kubectl: Kubectl) -> None:
        self.world = world
        self._kubectl = kubectl
        pods = eventually(lambda: world.all_of("Pod"), "the Deployment has a Pod")
        self.pod = str(pods[0]["metadata"]["name"])
        world.phase(self.pod)
        self.claim = world.generated(self.pod, "gpu")
        world.logged(self.pod, "\n")

    def run(self, *arguments: str) -> list[str]:
        """The rows that kubectl prints in the namespace."""
        return self._kubectl(*arguments, "-n", self.world.namespace).rows


@pytest.fixture
def deployed(cluster: EmbeddedCluster, world: World, kubectl: Kubectl) -> Iterator[Deployed]:
    with nvidia_driver(cluster):
        world.submit("nvidia-device-classes", "single-gpu-claim-template", "single-gpu-deployment")
        yield Deployed(world, kubectl)
        world.end()


@pytest.mark.process
@pytest.mark.seed("C03", "C04", "C07", "C08", "C10", "S004-26")
def test_tables_and_logs_of_seed_004(deployed: Deployed) -> None:
    """Differs in part: the name of the claim contains the name of the Pod's claim."""
    columns = deployed.run("get", "pods", "-o", "wide")[1].split()
    assert [columns[0], *columns[1:4], *columns[6:]] == [
        deployed.pod, "1/1", "Running", "0", GPU_NODE, "<none>", "<none>",
    ]  # fmt: skip
    rows = deployed.run("get", "deviceclass,resourceslice")
    (slice_,) = deployed.world.all_of("ResourceSlice")
    assert rows[0].split() == ["NAME", "AGE"]
    assert [row.split()[0] for row in rows[1:3]] == [
        "deviceclass.resource.k8s.io/gpu.nvidia.com",
        "deviceclass.resource.k8s.io/mig.nvidia.com",
    ]
    assert rows[3] == ""
    assert rows[4].split() == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert rows[5].split()[:4] == [
        f"resourceslice.resource.k8s.io/{slice_['metadata']['name']}", GPU_NODE, NVIDIA, GPU_NODE,
    ]  # fmt: skip
    assert [row.split()[0] for row in deployed.run("get", "resourceclaimtemplates")] == ["NAME", "single-gpu"]
    rows = deployed.run("get", "resourceclaims")
    assert rows[0].split() == ["NAME", "STATE", "AGE"]
    assert rows[1].split()[:2] == [deployed.claim, "allocated,reserved"]
    assert deployed.claim.startswith(f"{deployed.pod}-gpu-")
    logs = deployed.run("logs", "deployment/gpu-test", "--all-pods=true")
    assert logs == [f"[pod/{deployed.pod}/test] GPU 0: NVIDIA A30 (UUID: {UUID})"]


@pytest.mark.process
@pytest.mark.seed("C05")
def test_the_slice_as_yaml(deployed: Deployed) -> None:
    text = "\n".join(deployed.run("get", "resourceslice", "-o", "yaml"))
    listing = yaml.safe_load(text)
    assert (listing["kind"], listing["apiVersion"], listing["metadata"]) == (
        "List",
        "v1",
        {"resourceVersion": ""},
    )
    (item,) = listing["items"]
    assert list(item["spec"]) == ["devices", "driver", "nodeName", "pool"]
    assert item["metadata"]["generation"] == 1
    assert "          version: 12.2.0\n" in text
    written = yaml.safe_load((MANIFESTS / "nvidia-gpu-slice.yaml").read_text())
    (device,), (wanted,) = item["spec"]["devices"], written["spec"]["devices"]
    assert wanted["attributes"].items() <= device["attributes"].items()
    assert device["capacity"] == wanted["capacity"]


@pytest.mark.process
@pytest.mark.seed("C06", "S004-12", "S004-18")
def test_describe_node(deployed: Deployed) -> None:
    """Differs in part: there is a section about slices since 1.37."""
    rows = deployed.run("describe", "node", GPU_NODE)
    assert " " * 20 + "nvidia.com/gpu.present=true" in rows
    capacity, allocatable, slices, system = (
        rows.index(f"{name}:")
        for name in ("Capacity", "Allocatable", "Node-Local ResourceSlices", "System Info")
    )
    assert capacity < allocatable < slices < system
    assert not [row for row in rows[capacity:slices] if "nvidia" in row]
    assert [row.split() for row in rows[slices + 1 : system]] == [
        ["Driver", "Pool", "Slices", "Devices"],
        ["------", "----", "------", "-------"],
        [NVIDIA, GPU_NODE, "1", "1"],
    ]


@pytest.mark.process
@pytest.mark.seed("C09", "S000-05")
def test_describe_the_claim(deployed: Deployed) -> None:
    """Differs in part: with Allocation Timestamp, and without Block Owner Deletion."""
    rows = deployed.run("describe", "resourceclaims")
    sections = [row.split(":")[0] for row in rows if row and not row.startswith(" ")]
    assert sections == [
        "Name", "Namespace", "Labels", "Annotations", "API Version", "Kind", "Metadata", "Spec", "Status", "Events",
    ]  # fmt: skip
    text = "\n".join(rows)
    assert rows[0] == f"Name:         {deployed.claim}"
    assert f"  Generate Name:  {deployed.pod}-gpu-" in rows
    assert "Block Owner Deletion" not in text
    owner = rows.index("  Owner References:")
    assert [row.split(":")[0].strip() for row in rows[owner + 1 : owner + 6]] == [
        "API Version", "Controller", "Kind", "Name", "UID",
    ]  # fmt: skip
    spec, status = rows.index("Spec:"), rows.index("Status:")
    assert rows[spec:status] == [
        "Spec:",
        "  Devices:",
        "    Requests:",
        "      Exactly:",
        "        Allocation Mode:    ExactCount",
        "        Count:              1",
        "        Device Class Name:  gpu.nvidia.com",
        "      Name:                 gpu",
    ]
    assert rows[status + 1] == "  Allocation:"
    assert rows[status + 2].startswith("    Allocation Timestamp:  ")
    assert rows[status + 3 : status + 9] == [
        "    Devices:",
        "      Results:",
        "        Device:   gpu-0",
        "        Driver:   gpu.nvidia.com",
        f"        Pool:     {GPU_NODE}",
        "        Request:  gpu",
    ]
    assert rows[-1] == "Events:        <none>"


@pytest.mark.seed("C11", "C12", "M20", "M21")
def test_apply_and_delete(kubectl: Kubectl, world: World) -> None:
    """Differs in part: deleting tells the namespace since 1.37."""
    space = ("-n", world.namespace)
    applied = [
        kubectl("apply", "-f", manifest(f"{name}.as-written"), *space).out
        for name in ("single-gpu-claim-template", "single-gpu-deployment")
    ]
    assert applied == [
        "resourceclaimtemplate.resource.k8s.io/single-gpu created\n",
        "deployment.apps/gpu-test created\n",
    ]
    assert kubectl("delete", "deployment", "gpu-test", *space).out == (
        f'deployment.apps "gpu-test" deleted from {world.namespace} namespace\n'
    )
    assert kubectl("delete", "resourceclaimtemplate", "single-gpu", *space).out == (
        f'resourceclaimtemplate.resource.k8s.io "single-gpu" deleted from {world.namespace} namespace\n'
    )
