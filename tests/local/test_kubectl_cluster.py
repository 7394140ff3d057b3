"""kubectl of two versions against a whole cluster of `drakit up`: tables, descriptions, the life of Pods."""

from __future__ import annotations

import json
import platform
import time
from typing import Any

import pytest
import yaml
from kubectl_kit import Kubectl, Space, cells, masked

from clusters.embedded.kubelet.node.status import architecture

pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]

DRA = "resource.k8s.io/v1"
RUN = ["sleep", "1000"]
NONE = "<none>"


def container(name: str = "c", *command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1", "command": list(command) or RUN, **fields}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"terminationGracePeriodSeconds": 1, **spec}
    spec["containers"] = list(containers) or [container()]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim_template(name: str) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.drakit.dev"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    return {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def after(rows: list[list[str]], title: str, count: int) -> list[list[str]]:
    """The rows behind a title."""
    start = next(number for number, row in enumerate(rows) if row[0] == title) + 1
    return rows[start : start + count]


# --- nodes


def test_get_nodes(whole_cluster: Kubectl) -> None:
    assert cells(whole_cluster("get", "nodes").out) == [
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["node-1", "Ready", NONE, "AGE", "v1.37.2"],
        ["node-2", "Ready", NONE, "AGE", "v1.37.2"],
    ]
    wide = cells(whole_cluster("get", "node", "node-1", "-o", "wide", "--no-headers").out)
    kernel = f"{platform.release()} ({architecture()})"
    assert wide[0][5:] == ["127.0.0.1", NONE, "drakit embedded node", kernel, "containerd://2.1.4"]
    assert whole_cluster("get", "nodes", "-o", "name").rows == ["node/node-1", "node/node-2"]
    columns = "custom-columns=N:.metadata.name,CPU:.status.allocatable.cpu"
    assert cells(whole_cluster("get", "nodes", "-o", columns).out)[1:] == [["node-1", "8"], ["node-2", "8"]]


def test_describe_node(space: Space) -> None:
    amounts = {"requests": {"cpu": "350m", "memory": "64Mi"}, "limits": {"cpu": "2"}}
    space.apply(pod("busy", container(resources=amounts), nodeName="node-1"))
    space("wait", "--for=condition=Ready", "pod/busy", "--timeout=20s")
    rows = cells(space("describe", "node", "node-1").out)
    assert ["Taints:", NONE] in rows
    assert ["Unschedulable:", "false"] in rows
    amounts_of_node = [
        ["cpu:", "8"],
        ["ephemeral-storage:", "100Gi"],
        ["hugepages-1Gi:", "0"],
        ["hugepages-2Mi:", "0"],
        ["memory:", "32Gi"],
        ["pods:", "110"],
    ]
    assert after(rows, "Capacity:", 6) == after(rows, "Allocatable:", 6) == amounts_of_node
    conditions = [row[:2] + row[4:] for row in after(rows, "Conditions:", 6)[2:]]
    assert conditions == [
        ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
        ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
        ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
        ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
    ]
    assert after(rows, "Node-Local ResourceSlices:", 3)[::2] == [
        ["Driver", "Pool", "Slices", "Devices"],
        ["gpu.drakit.dev", "node-1", "1", "4"],
    ]
    # 350m of 8 CPUs are 4.375 %, 64Mi of 32Gi 0.2 %; kubectl cuts both
    assert [space.namespace, "busy", "350m (4%)", "2 (25%)", "64Mi (0%)", "0 (0%)", "AGE"] in rows
    assert ["cpu", "350m (4%)", "2 (25%)"] in rows
    assert ["memory", "64Mi (0%)", "0 (0%)"] in rows
    events = [row for row in after(rows, "Events:", 12)[2:] if "node-controller" not in row]
    reasons = ("NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady")
    assert [row[1] for row in events[:5]] == ["Starting", *reasons]
    assert events[0] == ["Normal", "Starting", "AGE", "kubelet", "Starting kubelet."]


def test_drain_keeps_budgets_and_daemons(space: Space) -> None:
    node = "node-2"
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x")["spec"]}
    daemons = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }  # fmt: skip
    space.apply(daemons)
    space("create", "deployment", "web", "--image=busybox:1", "--replicas=2", "--", "pause")
    space("create", "pdb", "web", "--selector=app=web", "--max-unavailable=1")
    space("rollout", "status", "deploy/web", "--timeout=30s")
    space("rollout", "status", "ds/d", "--timeout=30s")
    wanted = [["NAME", "MIN AVAILABLE", "MAX UNAVAILABLE", "ALLOWED DISRUPTIONS", "AGE"],
              ["web", "N/A", "1", "1", "AGE"]]  # fmt: skip
    space.until(wanted, "get", "pdb")
    try:
        assert space("cordon", node).out == f"node/{node} cordoned\n"
        assert [row[1] for row in space.table("get", "nodes", "--no-headers")] == [
            "Ready",
            "Ready,SchedulingDisabled",
        ]
        own = "--pod-selector=app in (web,d)"
        refused = space.run("drain", node, own)
        assert refused.code == 1
        assert "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): " in refused.err
        drained = space("drain", node, "--ignore-daemonsets", own, "--timeout=60s")
        assert drained.out.splitlines()[0] == f"node/{node} already cordoned"
        assert drained.out.splitlines()[-1] == f"node/{node} drained"
        assert "ignoring DaemonSet-managed Pods: " in drained.err
        rows = space.table("get", "pods", "-l", "app=web", "-o", "wide", "--no-headers")
        assert {row[6] for row in rows if row[2] == "Running"} == {"node-1"}
        space("rollout", "status", "deploy/web", "--timeout=30s")
        # With one Pod missing the budget allows nothing more.
        space("scale", "deploy/web", "--replicas=1")
        space("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"maxUnavailable":0}}')
        space.until([["web", "N/A", "0", "0", "AGE"]], "get", "pdb", "--no-headers")
        # A Pod that is already on its way out may be evicted whatever the budget says.
        space.until(
            [["web-HASH-XXXXX"]],
            "get",
            "pods",
            "-l",
            "app=web",
            "--no-headers",
            "-o",
            "custom-columns=:.metadata.name",
        )
        name = space("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}").out
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{space.namespace}/pods/{name}/eviction"
        kept = space.run("create", "--raw", path, "-f", "-", text=json.dumps(eviction))
        text = "Cannot evict pod as it would violate the pod's disruption budget."
        assert (kept.code, kept.err) == (1, f"Error from server (TooManyRequests): {text}\n")
    finally:
        # Whatever went wrong, what comes next needs both nodes.
        uncordoned = space.run("uncordon", node)
    assert uncordoned.out == f"node/{node} uncordoned\n"
    assert [row[1] for row in space.table("get", "nodes", "--no-headers")] == ["Ready", "Ready"]
    assert len(space.table("get", "pods", "-l", "app=d", "--no-headers")) == 2


def test_a_taint_evicts_pods(space: Space) -> None:
    space.apply(pod("p", nodeName="node-2"))
    space("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    assert space("taint", "node", "node-2", "k=v:NoExecute").out == "node/node-2 tainted\n"
    try:
        space("wait", "--for=delete", "pod/p", "--timeout=30s")
        events = space.table(
            "get", "events", "--field-selector", "reason=TaintManagerEviction", "--no-headers"
        )
        text = f"Marking for deletion Pod {space.namespace}/p"
        assert events == [["AGE", "Normal", "TaintManagerEviction", "pod/p", text]]
    finally:
        assert space("taint", "node", "node-2", "k-").out == "node/node-2 untainted\n"


# --- devices


def test_a_pod_with_a_claim_from_manifest_to_container(space: Space) -> None:
    spec = pod(
        "gpu",
        container("c", "probe", resources={"claims": [{"name": "gpu"}]}),
        nodeName=None,
        restartPolicy="Never",
    )
    spec["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    assert space.apply(claim_template("one"), spec).rows == [
        "resourceclaimtemplate.resource.k8s.io/one created",
        "pod/gpu created",
    ]
    assert space("wait", "--for=condition=Ready", "pod/gpu", "--timeout=30s").out == "pod/gpu condition met\n"
    assert space.table("get", "resourceclaims,resourceclaimtemplates") == [
        ["NAME", "STATE", "AGE"],
        ["resourceclaim.resource.k8s.io/gpu-gpu-XXXXX", "allocated,reserved", "AGE"],
        ["NAME", "AGE"],
        ["resourceclaimtemplate.resource.k8s.io/one", "AGE"],
    ]
    node = space("get", "pod", "gpu", "-o", "jsonpath={.spec.nodeName}").out
    assert space.table("get", "pods", "-o", "wide") == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED NODE", "READINESS GATES"],
        ["gpu", "1/1", "Running", "0", "AGE", "IP", node, NONE, NONE],
    ]
    seen = json.loads(space("logs", "gpu").out)
    assert [device["path"][:12] for device in seen["devices"]] == ["/dev/fakegpu"]
    text = masked(space("describe", "resourceclaims").out)
    found = yaml.safe_load(space("get", "resourceclaims", "-o", "yaml").out)["items"][0]
    device = found["status"]["allocation"]["devices"]["results"][0]["device"]
    version = found["metadata"]["resourceVersion"]
    assert (
        text.splitlines()
        == CLAIM.format(namespace=space.namespace, device=device, node=node, version=version).splitlines()
    )
    rows = cells(space("describe", "pod", "gpu").out)
    assert after(rows, "Conditions:", 6)[1:] == [
        [kind, "True"]
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    assert after(rows, "Events:", 7)[2:] == [
        ["Normal", "Scheduled", "AGE", "default-scheduler",
         f"Successfully assigned {space.namespace}/gpu to {node}"],
        *(["Normal", reason, "AGE", "kubelet", f"spec.containers{{c}}: {message}"] for reason, message in (
            ("Pulled", 'Container image "busybox:1" already present on machine and can be accessed by the pod'),
            ("Created", "Container created"),
            ("Started", "Container started"),
        )),
    ]  # fmt: skip
    space("delete", "pod", "gpu")
    space("wait", "--for=delete", "resourceclaims", "--all", "--timeout=20s")


CLAIM = """\
Name:         gpu-gpu-XXXXX
Namespace:    {namespace}
Labels:       <none>
Annotations:  resource.kubernetes.io/pod-claim-name: gpu
API Version:  resource.k8s.io/v1
Kind:         ResourceClaim
Metadata:
  Creation Timestamp:  TIME
  Finalizers:
    resource.kubernetes.io/delete-protection
  Generate Name:  gpu-gpu-
  Owner References:
    API Version:     v1
    Controller:      true
    Kind:            Pod
    Name:            gpu
    UID:             UID
  Resource Version:  {version}
  UID:               UID
Spec:
  Devices:
    Requests:
      Exactly:
        Allocation Mode:    ExactCount
        Count:              1
        Device Class Name:  gpu.drakit.dev
      Name:                 gpu
Status:
  Allocation:
    Allocation Timestamp:  TIME
    Devices:
      Results:
        Device:   {device}
        Driver:   gpu.drakit.dev
        Pool:     {node}
        Request:  gpu
    Node Selector:
      Node Selector Terms:
        Match Fields:
          Key:       metadata.name
          Operator:  In
          Values:
            {node}
  Reserved For:
    Name:      gpu
    Resource:  pods
    UID:       UID
Events:        <none>
"""


def test_classes_and_slices(whole_cluster: Kubectl) -> None:
    assert cells(whole_cluster("get", "deviceclass,resourceslice").out) == [
        ["NAME", "AGE"],
        ["deviceclass.resource.k8s.io/gpu.drakit.dev", "AGE"],
        ["NAME", "NODE", "DRIVER", "POOL", "AGE"],
        *([f"resourceslice.resource.k8s.io/00000-gpu.drakit.dev-{node}-XXXXX", node, "gpu.drakit.dev", node, "AGE"]
          for node in ("node-1", "node-2")),
    ]  # fmt: skip
    rows = cells(whole_cluster("describe", "deviceclass", "gpu.drakit.dev").out)
    assert ["Expression:", 'device.driver == "gpu.drakit.dev"'] in rows
    slices = whole_cluster(
        "get",
        "resourceslice",
        "--field-selector=spec.nodeName=node-1",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ).out.split()
    rows = cells(whole_cluster("describe", "resourceslice", slices[0]).out)
    assert [row[1] for row in rows if row[0] == "Name:" and row[1].startswith("gpu-")] == [
        f"gpu-{number}" for number in range(4)
    ]
    assert after(rows, "Pool:", 3) == [
        ["Generation:", "1"],
        ["Name:", "node-1"],
        ["Resource Slice Count:", "1"],
    ]


def test_a_claim_that_nothing_satisfies(space: Space) -> None:
    many = claim_template("nine")
    many["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 9
    wants = pod("p", container(resources={"claims": [{"name": "g"}]}))
    wants["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "nine"}]
    space.apply(many, wants)
    text = (
        "0/2 nodes are available: 2 cannot allocate all claims. preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    space.until(
        [["AGE", "Warning", "FailedScheduling", "pod/p", text]],
        "get", "events", "--no-headers", "--field-selector=reason=FailedScheduling",
    )  # fmt: skip
    assert space.table("get", "pods", "--no-headers") == [["p", "0/1", "Pending", "0", "AGE"]]
    assert [row[1] for row in space.table("get", "resourceclaims", "--no-headers")] == ["pending"]


# --- Pods


def test_the_states_of_pods(space: Space) -> None:
    missing = {"name": "v", "configMap": {"name": "missing"}}
    variable = {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "k"}}}
    space.apply(
        pod("config", container(env=[variable])),
        pod("crash", container("c", "exit", "2")),
        pod("done", container("c", "true"), restartPolicy="Never"),
        pod("error", container("c", "false"), restartPolicy="Never"),
        pod("half", container("c"), container("d", "true"), restartPolicy="Never"),
        pod("huge", container(resources={"requests": {"cpu": "100"}})),
        pod("init", initContainers=[container("i")]),
        pod("initerror", initContainers=[container("i", "false")], restartPolicy="Never"),
        pod("mount", container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), volumes=[missing]),
        pod("run"),
    )
    wanted = [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["config", "0/1", "CreateContainerConfigError", "0", "AGE"],
        ["crash", "0/1", "CrashLoopBackOff", "1 (AGE ago)", "AGE"],
        ["done", "0/1", "Completed", "0", "AGE"],
        ["error", "0/1", "Error", "0", "AGE"],
        ["half", "1/2", "NotReady", "0", "AGE"],
        ["huge", "0/1", "Pending", "0", "AGE"],
        ["init", "0/1", "Init:0/1", "0", "AGE"],
        ["initerror", "0/1", "Init:Error", "0", "AGE"],
        ["mount", "0/1", "ContainerCreating", "0", "AGE"],
        ["run", "1/1", "Running", "0", "AGE"],
    ]
    space.until(wanted, "get", "pods", seconds=9.0)
    names = space("get", "pods", "--field-selector=status.phase=Failed", "-o", "name").rows
    assert names == ["pod/error", "pod/initerror"]
    ready = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}"
    assert space("get", "pods", "-o", ready).out == "crash half run"
    by_name = space("get", "pods", "--sort-by=.metadata.name", "-o", "name").rows
    assert by_name == [f"pod/{row[0]}" for row in wanted[1:]]
    rows = cells(space("describe", "pod", "crash").out)
    uid = space("get", "pod", "crash", "-o", "jsonpath={.metadata.uid}").out
    back_off = f"Back-off restarting failed container c in pod crash_{space.namespace}({uid})"
    assert masked(f"spec.containers{{c}}: {back_off}") in rows[-1]
    assert ["Reason:", "CrashLoopBackOff"] in rows
    assert ["Restart Count:", "1"] in rows
    for name, text in {
        "config": 'container "c" in pod "config" is waiting to start: CreateContainerConfigError',
        "init": 'container "c" in pod "init" is waiting to start: PodInitializing',
        "mount": 'container "c" in pod "mount" is waiting to start: ContainerCreating',
    }.items():
        refused = space.run("logs", name, "-c", "c")
        assert (refused.code, refused.err) == (1, f"Error from server (BadRequest): {text}\n")
    assert space.run("logs", "huge").out == ""
    rows = cells(space("describe", "pod", "mount").out)
    text = 'MountVolume.SetUp failed for volume "v" : configmap "missing" not found'
    assert [row[4] for row in rows if row[:2] == ["Warning", "FailedMount"]] == [text]
    rows = cells(space("events", "--for", "pod/done").out)
    assert [row[2] for row in rows[1:]].count("Started") == 1


def test_the_life_of_a_pod_as_a_watcher_sees_it(space: Space) -> None:
    with space.running("get", "pods", "--watch", "-o", "wide") as lines:
        space.apply(pod("p", initContainers=[container("i", "sleep", "1")]))
        seen = [lines.next()]
        while "1/1" not in seen[-1]:
            seen.append(lines.next())
        space("delete", "pod", "p")
        while "Error" not in seen[-1]:
            seen.append(lines.next())
    rows = [cells(line)[0] for line in seen]
    assert rows[0][:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    states = [row[2] for row in rows[1:]]
    once = [state for number, state in enumerate(states) if number == 0 or states[number - 1] != state]
    # sleep as the first process knows no TERM: killed after the grace period, exit code 137
    course = ["Pending", "Init:0/1", "PodInitializing", "Running", "Terminating", "Error"]
    # A kubelet that is busy writes no status that is over by then.
    assert once == [state for state in course if state in once]
    assert {"Init:0/1", *course[3:]} <= set(once)
    assert rows[1][5:] == [NONE, NONE, NONE, NONE]


def test_delete(space: Space) -> None:
    trapped = container("c", "bash", "-c", "trap 'exit 0' TERM; sleep 9999 & wait")
    space.apply(
        *(pod(name, trapped, terminationGracePeriodSeconds=30) for name in ("a", "b")), pod("c"), pod("d")
    )
    space("wait", "--for=condition=Ready", "pods", "--all", "--timeout=30s")
    begin = time.monotonic()
    assert space("delete", "pod", "a").out == f'pod "a" deleted from {space.namespace} namespace\n'
    assert time.monotonic() - begin < 10
    assert space("delete", "pod", "c", "--now").out == f'pod "c" deleted from {space.namespace} namespace\n'
    forced = space("delete", "pod", "d", "--force")
    assert forced.out == f'pod "d" force deleted from {space.namespace} namespace\n'
    assert forced.err.startswith("Warning: Immediate deletion does not wait for confirmation")
    missing = space.run("delete", "pod", "nope")
    assert (missing.code, missing.err) == (1, 'Error from server (NotFound): pods "nope" not found\n')
    assert space("delete", "pod", "nope", "--ignore-not-found").out == ""
    assert space("delete", "pods", "--all").rows == [f'pod "b" deleted from {space.namespace} namespace']
    assert space.run("get", "pods").err == f"No resources found in {space.namespace} namespace.\n"


def test_delete_a_namespace_with_content(space: Space) -> None:
    name = f"{space.namespace}-more"
    space.kubectl("create", "namespace", name)
    space.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=20s")
    space.kubectl.apply(pod("p"), claim_template("t"), flags=("-n", name))
    space.kubectl("-n", name, "wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    assert space.kubectl("delete", "namespace", name, "--timeout=50s").out == f'namespace "{name}" deleted\n'
    refused = space.kubectl.run("get", "namespace", name)
    assert refused.err == f'Error from server (NotFound): namespaces "{name}" not found\n'
    refused = space.kubectl.run("delete", "namespace", "default")
    assert refused.err == (
        'Error from server (Forbidden): namespaces "default" is forbidden: this namespace may not be deleted\n'
    )


def test_wait(space: Space) -> None:
    with space.running("wait", "--for=create", "pod/p", "--timeout=20s") as lines:
        space.apply(pod("p", container("c", "sleep", "1"), restartPolicy="Never"))
        assert lines.next() == "pod/p condition met"
    done = space("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/p", "--timeout=20s")
    assert done.out == "pod/p condition met\n"
    assert space("wait", "--for=condition=Ready=false", "pod/p", "--timeout=20s").code == 0
    late = space.run("wait", "--for=condition=Ready", "pod/p", "--timeout=100ms")
    assert (late.code, late.err) == (1, "error: timed out waiting for the condition on pods/p\n")
    space("delete", "pod", "p")
    assert space("wait", "--for=delete", "pod/p", "--timeout=5s").code == 0


def test_logs(space: Space) -> None:
    talker = container("c", "sh", "-c", "echo one; echo two; echo three; sleep 1000")
    late = container("c", "sh", "-c", "sleep 2; echo last")
    space.apply(pod("two", talker, container("d", "echo", "x")), pod("once", late, restartPolicy="Never"))
    space("wait", "--for=condition=Ready", "pod/once", "--timeout=20s")
    with space.running("logs", "-f", "once") as lines:
        assert lines.next() == "last"
        space("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/once", "--timeout=20s")
    space("wait", "--for=jsonpath={.status.containerStatuses[1].restartCount}=1", "pod/two", "--timeout=20s")
    assert space("logs", "once").out == "last\n"
    picked = space("logs", "two", "--tail=2")
    assert (picked.out, picked.err) == ("two\nthree\n", 'Defaulted container "c" out of: c, d\n')
    assert space("logs", "two", "-c", "d", "--previous").out == "x\n"
    stamped = space("logs", "two", "-c", "c", "--timestamps", "--limit-bytes=200").rows
    assert [row.split()[1] for row in stamped] == ["one", "two", "three"]
    every = space("logs", "two", "--all-containers", "--prefix").rows
    # Which container is first is chance.
    every.sort(key=lambda row: row.split()[0])
    assert every == ["[pod/two/c] one", "[pod/two/c] two", "[pod/two/c] three", "[pod/two/d] x"]
    for wrong, text in {
        ("two", "-c", "zz"): "error: container zz is not valid for pod two out of: c, d\n",
        (
            "nope",
        ): f'error: error from server (NotFound): pods "nope" not found in namespace "{space.namespace}"\n',
        ("once", "-p"): (
            'Error from server (BadRequest): previous terminated container "c" in pod "once" not found\n'
        ),
    }.items():
        refused = space.run("logs", *wrong)
        assert (refused.code, refused.err) == (1, text)


def test_what_simulated_containers_cannot_do_is_said(space: Space) -> None:
    space.apply(pod("p"))
    space("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    why = "the containers of this cluster are simulated"
    for arguments in (
        ("exec", "p", "--", "ls"),
        ("attach", "p"),
        ("port-forward", "p", "8080:80"),
        ("cp", "p:/etc/hostname", "/dev/null"),
    ):
        refused = space.run(*arguments)
        assert (refused.code, why in refused.err) == (1, True), arguments
    refused = space.run("debug", "p", "--image=busybox")
    assert (refused.code, "ephemeral containers are disabled for this cluster" in refused.err) == (1, True)
    refused = space.run("top", "pods")
    assert (refused.code, refused.err) == (1, "error: Metrics API not available\n")
