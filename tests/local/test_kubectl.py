"""kubectl of two versions against the API server alone: what controllers and kubelets would do, the tests do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubectl_kit import VERSIONS, Kubectl, Output, build, kubeconfig

from clusters.client import Client
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

pytestmark = [pytest.mark.go, pytest.mark.timeout(900)]

DRA = "resource.k8s.io/v1"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


class World:
    """A server whose clock stands still, kubectl as its administrator, and a namespace for one test."""

    def __init__(self, kubectl: Kubectl, client: Client, clock: list[float], namespace: str) -> None:
        self.kubectl = kubectl
        self.client = client
        self.clock = clock
        self.namespace = namespace

    def __call__(self, *arguments: str, text: str | None = None, **environment: str) -> Output:
        """A command in the namespace that must succeed."""
        return self.kubectl("-n", self.namespace, *arguments, text=text, **environment)

    def run(self, *arguments: str, text: str | None = None) -> Output:
        """A command in the namespace."""
        return self.kubectl.run("-n", self.namespace, *arguments, text=text)

    def create(self, *documents: dict[str, Any]) -> Output:
        """`kubectl create -f -`."""
        return self("create", "-f", "-", text=yaml.safe_dump_all(documents))

    def status(self, path: str, status: dict[str, Any]) -> None:
        """Write a status as a controller would; `path` such as `apps/v1/deployments/web`."""
        group_version, resource, name = path.rsplit("/", 2)
        prefix = "/apis" if "/" in group_version else "/api"
        space = "" if resource == "nodes" else f"/namespaces/{self.namespace}"
        url = f"{prefix}/{group_version}{space}/{resource}/{name}/status"
        self.client.request("PATCH", url, body={"status": status}, content_type=STRATEGIC)


@pytest.fixture(scope="module")
def clock() -> list[float]:
    return [float(int(time.time()))]


@pytest.fixture(scope="module")
def server(clock: list[float]) -> Iterator[ServerThread]:
    users = {
        "admin": User("admin", groups=(MASTERS,)),
        "bob": User("bob"),
    }
    made = ServerThread(ServerConfig(tokens=StaticTokens(users), clock=lambda: clock[0])).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def client(server: ServerThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    authority = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.write_bytes(server.ca_pem)
    made = Client(server.url, authority, "admin")
    yield made
    made.close()


@pytest.fixture(scope="module", params=VERSIONS)
def kubectl(
    request: pytest.FixtureRequest, server: ServerThread, tmp_path_factory: pytest.TempPathFactory
) -> Kubectl:
    home = tmp_path_factory.mktemp("home")
    config = kubeconfig(home / "admin.yaml", server.url, server.ca_pem, "admin")
    return Kubectl(build(request.param), config, home)


@pytest.fixture(scope="module")
def bob(server: ServerThread, kubectl: Kubectl) -> Kubectl:
    home = Path(kubectl.environment["HOME"])
    config = kubeconfig(home / "bob.yaml", server.url, server.ca_pem, "bob")
    return Kubectl(kubectl._binary, config, home)


_COUNT = iter(range(1000))


@pytest.fixture
def world(kubectl: Kubectl, client: Client, clock: list[float]) -> World:
    namespace = f"t{next(_COUNT)}"
    kubectl("create", "namespace", namespace)
    kubectl("-n", namespace, "create", "serviceaccount", "default")
    return World(kubectl, client, clock, namespace)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "probe:1", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "resourceClaims": claims, **spec},
    }


def running(ip: str = "10.0.0.7") -> dict[str, Any]:
    since = "2026-01-01T00:00:00Z"
    state = {"running": {"startedAt": since}}
    container = {
        "name": "a",
        "ready": True,
        "restartCount": 0,
        "image": "probe:1",
        "imageID": "",
        "state": state,
    }
    return {
        "phase": "Running",
        "podIPs": [{"ip": ip}],
        "podIP": ip,
        "containerStatuses": [container],
        "conditions": [{"type": "Ready", "status": "True"}],
    }


def template(app: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "probe:1"}, {"name": "side", "image": "probe:2"}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template(name), **spec},
    }


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template(name, restartPolicy="Never"), **spec},
    }


def claim(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": "gpu.example.com"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def allocation() -> dict[str, Any]:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
    return {"devices": {"results": [result]}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


# --- discovery


def test_version(world: World) -> None:
    assert "Server Version: v1.37.2" in world("version").rows


def test_api_resources(world: World) -> None:
    rows = [row.split() for row in world("api-resources", "--no-headers").rows]
    assert ["pods", "po", "v1", "true", "Pod"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert ["poddisruptionbudgets", "pdb", "policy/v1", "true", "PodDisruptionBudget"] in rows
    dra = [row for row in rows if DRA in row]
    assert dra == [
        ["deviceclasses", DRA, "false", "DeviceClass"],
        ["devicetaintrules", DRA, "false", "DeviceTaintRule"],
        ["resourceclaims", DRA, "true", "ResourceClaim"],
        ["resourceclaimtemplates", DRA, "true", "ResourceClaimTemplate"],
        ["resourceslices", DRA, "false", "ResourceSlice"],
    ]
    everything = world("api-resources", "--categories=all", "-o", "name").rows
    assert {"pods", "deployments.apps", "jobs.batch", "cronjobs.batch"} <= set(everything)


def test_a_kind_that_is_not_served(world: World) -> None:
    refused = world.run("get", "podgroups")
    assert (refused.code, refused.err) == (1, 'error: the server doesn\'t have a resource type "podgroups"\n')


# --- get


def test_get_pods_short_and_wide(world: World) -> None:
    world.create(claim("gpu"), pod("p", nodeName="n1"))
    world.status("v1/pods/p", running())
    world.clock[0] += 90
    assert world("get", "pods").rows == [
        "NAME   READY   STATUS    RESTARTS   AGE",
        "p      1/1     Running   0          90s",
    ]
    assert world("get", "pods", "-o", "wide").rows == [
        "NAME   READY   STATUS    RESTARTS   AGE   IP         NODE   NOMINATED NODE   READINESS GATES",
        "p      1/1     Running   0          90s   10.0.0.7   n1     <none>           <none>",
    ]
    assert world("get", "pods", "--show-labels", "--no-headers").rows == [
        "p     1/1   Running   0     90s   app=p"
    ]
    assert world("get", "po", "p", "-o", "jsonpath={.status.podIP}").out == "10.0.0.7"
    assert world("get", "pods", "-o", "name").rows == ["pod/p"]
    assert (
        world("get", "pods", "-l", "app=other").err == f"No resources found in {world.namespace} namespace.\n"
    )


def test_get_workloads_short_and_wide(world: World) -> None:
    kinds = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    world.create(*(workload(kind, "web") for kind in kinds), job("once"))
    world.status(
        "apps/v1/deployments/web",
        {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    )
    images = "c,side       probe:1,probe:2"
    assert world("get", "deployments").rows == [
        "NAME   READY   UP-TO-DATE   AVAILABLE   AGE",
        "web    1/1     1            1           0s",
    ]
    assert world("get", "deploy", "-o", "wide").rows == [
        "NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES            SELECTOR",
        f"web    1/1     1            1           0s    {images}   app=web",
    ]
    assert world("get", "rs", "-o", "wide").rows == [
        "NAME   DESIRED   CURRENT   READY   AGE   CONTAINERS   IMAGES            SELECTOR",
        f"web    1         0         0       0s    {images}   app=web",
    ]
    assert world("get", "sts", "-o", "wide").rows == [
        "NAME   READY   AGE   CONTAINERS   IMAGES",
        f"web    0/1     0s    {images}",
    ]
    assert world("get", "ds").rows == [
        "NAME   DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE",
        "web    0         0         0       0            0           <none>          0s",
    ]
    assert world("get", "jobs").rows == [
        "NAME   STATUS    COMPLETIONS   DURATION   AGE",
        "once   Running   0/1                      0s",
    ]
    titles = [row for row in world("get", "all").rows if row.startswith("NAME ")]
    assert len(titles) == 5


def test_get_device_kinds(world: World) -> None:
    space = world.namespace
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    world.create(
        {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": space}, "spec": {}},
        {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": space}, "spec": spec},
        {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
         "spec": {"spec": claim("x")["spec"]}},
        claim("free"),
        claim("used"),
    )  # fmt: skip
    user = {"resource": "pods", "name": "p", "uid": "u"}
    world.status(f"{DRA}/resourceclaims/used", {"allocation": allocation(), "reservedFor": [user]})
    assert world("get", "resourceclaims").rows == [
        "NAME   STATE                AGE",
        "free   pending              0s",
        "used   allocated,reserved   0s",
    ]
    name = f"resourceslice.resource.k8s.io/{space}"
    both = world("get", "deviceclass,resourceslice", "--field-selector", f"metadata.name={space}")
    assert both.rows == [
        f"{'NAME':{len(name) - 2}}   AGE",
        f"deviceclass.resource.k8s.io/{space}   0s",
        "",
        f"{'NAME':{len(name)}}   NODE   DRIVER            POOL   AGE",
        f"{name}   n1     gpu.example.com   n1     0s",
    ]
    assert world("get", "resourceclaimtemplates").rows == ["NAME   AGE", "t      0s"]


def test_get_and_watch(world: World) -> None:
    world.create(claim("gpu"), pod("p"))
    with world.kubectl.running("-n", world.namespace, "get", "pods", "-w") as lines:
        assert lines.next() == "NAME   READY   STATUS    RESTARTS   AGE"
        assert lines.next() == "p      0/1     Pending   0          0s"
        world.status("v1/pods/p", running())
        assert lines.next() == "p      1/1     Running   0          0s"
    with world.kubectl.running("-n", world.namespace, "get", "pod", "p", "-w") as lines:
        assert lines.next() == "NAME   READY   STATUS    RESTARTS   AGE"
        assert lines.next() == "p      1/1     Running   0          0s"
        world("delete", "pod", "p", "--wait=false")
        assert lines.next() == "p      1/1     Terminating   0          0s"


# --- describe


def test_describe(world: World) -> None:
    node = f"node-{world.namespace}"
    status = {"capacity": {"cpu": "8"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    world.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status},
        claim("gpu"),
        pod("p", nodeName=node),
        workload("Deployment", "web", replicas=3),
        job("once"),
    )
    world.status("v1/pods/p", running())
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1"}, "type": "Normal", "reason": "Scheduled",
        "message": "Successfully assigned", "source": {"component": "default-scheduler"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": world.namespace, "apiVersion": "v1",
                           "uid": world("get", "pod", "p", "-o", "jsonpath={.metadata.uid}").out},
    }  # fmt: skip
    world.create(event)
    text = world("describe", "pod", "p").rows
    assert {"Status:           Running", "IP:               10.0.0.7"} <= set(text)
    assert "  Normal  Scheduled  <unknown>  default-scheduler  Successfully assigned" in text
    text = world("describe", "node", node).rows
    assert "  InternalIP:  10.0.0.1" in text
    assert any(row.split()[:2] == [world.namespace, "p"] for row in text)
    text = world("describe", "deployment", "web").rows
    assert "Replicas:               3 desired | 0 updated | 0 total | 0 available | 0 unavailable" in text
    text = world("describe", "job", "once").rows
    assert "Pods Statuses:    0 Active / 0 Succeeded / 0 Failed" in text
    text = world("describe", "resourceclaim", "gpu").rows
    assert {"Kind:         ResourceClaim", "        Device Class Name:  gpu.example.com"} <= set(text)


# --- writing


def test_apply_on_the_client_side(world: World) -> None:
    first, second = config_map("c", a="1"), config_map("c", a="2", b="3")
    assert world("apply", "-f", "-", text=yaml.safe_dump(first)).out == "configmap/c created\n"
    assert world("apply", "-f", "-", text=yaml.safe_dump(first)).out == "configmap/c unchanged\n"
    assert world("apply", "-f", "-", text=yaml.safe_dump(second)).out == "configmap/c configured\n"
    assert world("apply", "-f", "-", text=yaml.safe_dump(first)).out == "configmap/c configured\n"
    assert world("get", "cm", "c", "-o", "jsonpath={.data}").out == '{"a":"1"}'


def test_apply_on_the_server_side(world: World) -> None:
    text = yaml.safe_dump(workload("Deployment", "web"))
    assert (
        world("apply", "--server-side", "-f", "-", text=text).out
        == "deployment.apps/web serverside-applied\n"
    )
    refused = world.run(
        "apply", "--server-side", "--field-manager=other", "-f", "-",
        text=yaml.safe_dump(workload("Deployment", "web", template=template("web", hostNetwork=True),
                                     minReadySeconds=1)),
    )  # fmt: skip
    assert refused.code == 0
    world("scale", "deployment", "web", "--replicas=3")
    conflict = world.run(
        "apply", "--server-side", "-f", "-", text=yaml.safe_dump(workload("Deployment", "web", replicas=2))
    )
    assert conflict.code == 1
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in conflict.err
    forced = world(
        "apply", "--server-side", "--force-conflicts", "-f", "-",
        text=yaml.safe_dump(workload("Deployment", "web", replicas=2)),
    )  # fmt: skip
    assert forced.out == "deployment.apps/web serverside-applied\n"


def test_client_side_objects_move_to_the_server_side(world: World) -> None:
    text = yaml.safe_dump(config_map("c", a="1"))
    world("apply", "-f", "-", text=text)
    assert world("apply", "--server-side", "-f", "-", text=text).out == "configmap/c serverside-applied\n"
    managers = world(
        "get", "cm", "c", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"
    )
    assert set(managers.out.split()) == {"kubectl", "kubectl-last-applied"}


def test_diff(world: World) -> None:
    world("apply", "-f", "-", text=yaml.safe_dump(config_map("c", a="1")))
    same = world.run("diff", "-f", "-", text=yaml.safe_dump(config_map("c", a="1")))
    assert (same.code, same.out) == (0, "")
    other = world.run("diff", "-f", "-", text=yaml.safe_dump(config_map("c", a="2")))
    assert other.code == 1
    assert {'-  a: "1"', '+  a: "2"'} <= set(other.rows)


def test_create_patch_label_annotate_edit_delete(world: World) -> None:
    assert world("create", "configmap", "c", "--from-literal=a=1").out == "configmap/c created\n"
    assert world("label", "cm", "c", "x=y").out == "configmap/c labeled\n"
    assert world("annotate", "cm", "c", "note=z").out == "configmap/c annotated\n"
    assert world("patch", "cm", "c", "-p", '{"data":{"b":"2"}}').out == "configmap/c patched\n"
    patch = '[{"op":"replace","path":"/data/a","value":"3"}]'
    assert world("patch", "cm", "c", "--type=json", "-p", patch).out == "configmap/c patched\n"
    assert (
        world("patch", "cm", "c", "--type=merge", "-p", '{"data":{"b":null}}').out == "configmap/c patched\n"
    )
    assert world("edit", "cm", "c", EDITOR='sed -i \'s/"3"/"4"/\'').out == "configmap/c edited\n"
    assert world("get", "cm", "c", "-o", "jsonpath={.data}{.metadata.labels}").out == '{"a":"4"}{"x":"y"}'
    assert world("delete", "cm", "c").out == f'configmap "c" deleted from {world.namespace} namespace\n'
    refused = world.run("get", "cm", "c")
    assert (refused.code, refused.err) == (1, 'Error from server (NotFound): configmaps "c" not found\n')


def test_create_by_generators(world: World) -> None:
    assert world("create", "deployment", "d", "--image=probe:1").out == "deployment.apps/d created\n"
    assert world("create", "job", "j", "--image=probe:1").out == "job.batch/j created\n"
    cron = world("create", "cronjob", "c", "--image=probe:1", "--schedule=*/5 * * * *")
    assert cron.out == "cronjob.batch/c created\n"
    assert world("get", "cj").rows == [
        "NAME   SCHEDULE      TIMEZONE   SUSPEND   ACTIVE   LAST SCHEDULE   AGE",
        "c      */5 * * * *   <none>     False     0        <none>          0s",
    ]
    assert world("create", "pdb", "b", "--selector=a=b", "--min-available=1").out.endswith("/b created\n")
    assert world("get", "pdb").rows == [
        "NAME   MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE",
        "b      1               N/A               0                     0s",
    ]
    assert world("run", "p", "--image=probe:1", "--restart=Never").out == "pod/p created\n"
    assert world("create", "deployment", "x", "--image=i", "--dry-run=server").out == (
        "deployment.apps/x created (server dry run)\n"
    )


def test_wrong_manifests_give_the_server_s_words(world: World) -> None:
    wrong = workload("Deployment", "web", selector={"matchLabels": {"app": "other"}})
    refused = world.run("apply", "-f", "-", text=yaml.safe_dump(wrong))
    assert (refused.code, refused.err) == (
        1,
        (
            'The Deployment "web" is invalid: spec.template.metadata.labels: Invalid value: {"app":"web"}: '
            "`selector` does not match template `labels`\n"
        ),
    )
    unknown = {**config_map("c"), "dta": {"a": "b"}}
    refused = world.run("create", "-f", "-", text=yaml.safe_dump(unknown))
    assert refused.code == 1
    assert 'strict decoding error: unknown field "dta"' in refused.err


def test_scale_and_rollout(world: World) -> None:
    world.create(workload("Deployment", "web"))
    assert world("scale", "deploy", "web", "--replicas=2").out == "deployment.apps/web scaled\n"
    refused = world.run("scale", "deploy", "web", "--replicas=3", "--current-replicas=9")
    assert refused.err == "error: Expected replicas to be 9, was 2\n"
    assert world("set", "image", "deploy/web", "c=probe:3").out == "deployment.apps/web image updated\n"
    assert world("rollout", "restart", "deploy/web").out == "deployment.apps/web restarted\n"
    assert world("rollout", "pause", "deploy/web").out == "deployment.apps/web paused\n"
    assert world("rollout", "resume", "deploy/web").out == "deployment.apps/web resumed\n"
    generation = int(world("get", "deploy", "web", "-o", "jsonpath={.metadata.generation}").out)
    counts = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    with world.kubectl.running("-n", world.namespace, "rollout", "status", "deploy/web") as lines:
        assert lines.next() == "Waiting for deployment spec update to be observed..."
        world.status("apps/v1/deployments/web", {"observedGeneration": generation, **counts})
        assert lines.next() == 'deployment "web" successfully rolled out'


def test_wait(world: World) -> None:
    world.create(claim("gpu"), pod("p"))
    waiting = world.run("wait", "--for=condition=Ready", "pod/p", "--timeout=1s")
    assert (waiting.code, waiting.err) == (1, "error: timed out waiting for the condition on pods/p\n")
    with world.kubectl.running("-n", world.namespace, "wait", "--for=condition=Ready", "pod/p") as lines:
        world.status("v1/pods/p", running())
        assert lines.next() == "pod/p condition met"
    with world.kubectl.running(
        "-n", world.namespace, "delete", "pod", "p", "--grace-period=0", "--force"
    ) as lines:
        lines.next()
        assert "p" in lines.next()
    assert world("wait", "--for=delete", "pod/p", "--timeout=5s").code == 0


# --- the rest


def test_events(world: World) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(world.clock[0]))
    involved = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": world.namespace}
    world.create(
        {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1"}, "involvedObject": involved,
            "type": "Warning", "reason": "FailedScheduling", "message": "0/1 nodes are available",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1, "source": {"component": "default-scheduler"},
        }
    )  # fmt: skip
    assert world("get", "events").rows == [
        "LAST SEEN   TYPE      REASON             OBJECT   MESSAGE",
        "0s          Warning   FailedScheduling   pod/p    0/1 nodes are available",
    ]
    rows = world("events", "--for", "pod/p", "--no-headers").rows
    assert [row.split()[1:4] for row in rows] == [["Warning", "FailedScheduling", "Pod/p"]]


def test_logs_without_a_kubelet(world: World) -> None:
    world.create(claim("gpu"), pod("p"))
    assert world("logs", "p").out == ""
    refused = world.run("logs", "p", "-c", "x")
    assert (refused.code, "container x is not valid for pod p" in refused.err) == (1, True)
    refused = world.run("logs", "missing")
    assert refused.code == 1
    assert 'pods "missing" not found' in refused.err


def test_exec_says_why_it_is_refused(world: World) -> None:
    world.create(claim("gpu"), pod("p"))
    refused = world.run("exec", "p", "--", "ls")
    assert refused.code == 1
    assert "pods/exec is not available" in refused.err


def test_explain(world: World) -> None:
    text = world("explain", "resourceclaim.spec.devices.requests").rows
    assert text[:5] == [
        "GROUP:      resource.k8s.io",
        "KIND:       ResourceClaim",
        "VERSION:    v1",
        "",
        "FIELD: requests <[]DeviceRequest>",
    ]
    assert "  name\t<string> -required-" in text
    text = world("explain", "pod.spec.restartPolicy").rows
    assert text[text.index("ENUM:") :][:4] == ["ENUM:", "    Always", "    Never", "    OnFailure"]


def test_rights(world: World, bob: Kubectl) -> None:
    assert world("auth", "can-i", "create", "pods").out == "yes\n"
    refused = bob.run("-n", world.namespace, "auth", "can-i", "create", "pods")
    assert (refused.code, refused.out) == (1, "no\n")
    refused = bob.run("-n", world.namespace, "get", "pods")
    assert (refused.code, refused.err) == (
        1,
        (
            f'Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods" in API group "" '
            f'in the namespace "{world.namespace}"\n'
        ),
    )
    world("create", "rolebinding", "view", "--clusterrole=view", "--user=bob")
    assert bob("-n", world.namespace, "auth", "can-i", "list", "pods").out == "yes\n"
    who = [row.split() for row in world("auth", "whoami").rows]
    assert ["Username", "admin"] in who
    assert world("create", "token", "default").out.count(".") == 2


def test_nodes_are_drained(world: World) -> None:
    node = f"drain-{world.namespace}"
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    world.create(claim("gpu"), pod("p", nodeName=node))
    world.status("v1/pods/p", running())
    assert world("taint", "node", node, "a=b:NoSchedule").out == f"node/{node} tainted\n"
    assert world("cordon", node).out == f"node/{node} cordoned\n"
    with world.kubectl.running("drain", node, "--force", "--timeout=60s") as lines:
        assert lines.next() == f"node/{node} already cordoned"
        assert lines.next().startswith("Warning: deleting Pods that declare no controller")
        assert lines.next() == f"evicting pod {world.namespace}/p"
        world("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "pod/p", "--timeout=20s")
        path = f"/api/v1/namespaces/{world.namespace}/pods/p"
        world.client.request("DELETE", path, body={"gracePeriodSeconds": 0})
        assert lines.next() == "pod/p evicted"
        assert lines.next() == f"node/{node} drained"
    assert world("uncordon", node).out == f"node/{node} uncordoned\n"
