"""kubectl of two versions against the workloads of a whole cluster of `drakit up`: make, change, roll out, undo."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from kubectl_kit import Space, cells, masked

pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]

NONE = "<none>"
ROLLED_OUT = 'deployment "web" successfully rolled out'


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1", "command": ["pause"]}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def roll_out(space: Space, what: str = "deploy/web") -> list[str]:
    return space("rollout", "status", what, "--timeout=40s").rows


def test_a_deployment_from_creation_to_deletion(space: Space) -> None:
    made = space("create", "deployment", "web", "--image=busybox:1", "--replicas=2", "--", "pause")
    assert made.out == "deployment.apps/web created\n"
    assert roll_out(space)[-1] == ROLLED_OUT
    images = ["busybox", "busybox:1"]
    assert space.table("get", "deploy", "-o", "wide") == [
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"],
        ["web", "2/2", "2", "2", "AGE", *images, "app=web"],
    ]
    assert space.table("get", "rs", "-o", "wide") == [
        ["NAME", "DESIRED", "CURRENT", "READY", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"],
        ["web-HASH", "2", "2", "2", "AGE", *images, "app=web,pod-template-hash=HASH"],
    ]
    names = space("get", "pods", "-l", "app=web", "-o", "name").rows
    assert [masked(name) for name in names] == ["pod/web-HASH-XXXXX"] * 2
    rows = cells(space("describe", "deployment", "web").out)
    assert ["Annotations:", "deployment.kubernetes.io/revision: 1"] in rows
    assert ["Replicas:", "2 desired | 2 updated | 2 total | 2 available | 0 unavailable"] in rows
    assert ["RollingUpdateStrategy:", "25% max unavailable, 25% max surge"] in rows
    assert ["NewReplicaSet:", "web-HASH (2/2 replicas created)"] in rows
    assert rows[-1] == [
        "Normal", "ScalingReplicaSet", "AGE", "deployment-controller", "Scaled up replica set web-HASH from 0 to 2",
    ]  # fmt: skip
    conditions = [row for row in rows if row[0] in ("Available", "Progressing")]
    assert conditions == [
        ["Available", "True", "MinimumReplicasAvailable"],
        ["Progressing", "True", "NewReplicaSetAvailable"],
    ]
    every = [row[0] for row in space.table("get", "all", "--no-headers")]
    assert every == ["pod/web-HASH-XXXXX"] * 2 + ["deployment.apps/web", "replicaset.apps/web-HASH"]
    assert space("expose", "deploy/web", "--port=80").out == "service/web exposed\n"
    assert space.table("get", "svc", "-o", "wide", "--no-headers") == [
        ["web", "ClusterIP", "CLUSTER-IP", NONE, "80/TCP", "AGE", "app=web"]
    ]
    assert space("scale", "deploy/web", "--replicas=3").out == "deployment.apps/web scaled\n"
    assert space("wait", "--for=jsonpath={.status.readyReplicas}=3", "deploy/web", "--timeout=20s").code == 0
    gone = space("delete", "deploy", "web", "--cascade=foreground", "--timeout=40s")
    assert gone.out == f'deployment.apps "web" deleted from {space.namespace} namespace\n'
    assert space("get", "rs,pods", "-l", "app=web", "-o", "name").out == ""


def test_roll_outs(space: Space) -> None:
    space.apply(workload("Deployment", "web"))
    roll_out(space)
    assert space("set", "image", "deploy/web", "c=busybox:2").out == "deployment.apps/web image updated\n"
    rows = roll_out(space)
    assert rows[-1] == ROLLED_OUT
    assert all(row.startswith('Waiting for deployment "web" rollout to finish: ') for row in rows[1:-1])
    assert space("rollout", "history", "deploy/web").rows == [
        "deployment.apps/web",
        "REVISION  CHANGE-CAUSE",
        "1         <none>",
        "2         <none>",
        "",
    ]
    undone = space("rollout", "undo", "deploy/web")
    assert undone.out == "deployment.apps/web rolled back\n"
    roll_out(space)
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert space("get", "deploy", "web", "-o", image).out == "busybox:1"
    assert space("annotate", "deploy/web", "kubernetes.io/change-cause=undone").code == 0
    space("wait", "--for=jsonpath={.metadata.annotations.kubernetes\\.io/change-cause}=undone", "rs",
          "-l", "app=web", "--field-selector=metadata.name=" + newest(space), "--timeout=20s")  # fmt: skip
    assert space("rollout", "history", "deploy/web").rows[2:4] == ["2         <none>", "3         undone"]
    assert "Image:\tbusybox:2" in space("rollout", "history", "deploy/web", "--revision=2").out
    assert space("rollout", "pause", "deploy/web").out == "deployment.apps/web paused\n"
    assert space("set", "env", "deploy/web", "A=B").out == "deployment.apps/web env updated\n"
    refused = space.run("rollout", "undo", "deploy/web")
    assert (refused.code, "cannot rollback a paused deployment" in refused.err + refused.out) == (1, True)
    assert len(space("get", "rs", "-o", "name").rows) == 2
    assert space("rollout", "resume", "deploy/web").out == "deployment.apps/web resumed\n"
    assert roll_out(space)[-1] == ROLLED_OUT
    assert space("set", "env", "deploy/web", "--list").rows == ["# Deployment web, container c", "A=B"]
    assert space("rollout", "restart", "deploy/web").out == "deployment.apps/web restarted\n"
    assert roll_out(space)[-1] == ROLLED_OUT
    sizes = sorted(row[1] for row in space.table("get", "rs", "--no-headers"))
    assert sizes == ["0", "0", "0", "1"]


def newest(space: Space) -> str:
    """The ReplicaSet that has Pods."""
    sets = json.loads(space("get", "rs", "-o", "json").out)["items"]
    return str(next(found["metadata"]["name"] for found in sets if found["spec"]["replicas"]))


def test_stateful_and_daemon_sets(space: Space) -> None:
    space.apply(workload("StatefulSet", "st", serviceName="st", replicas=2), workload("DaemonSet", "ds"))
    assert roll_out(space, "sts/st")[-1] == "partitioned roll out complete: 2 new pods have been updated..."
    assert roll_out(space, "ds/ds")[-1] == 'daemon set "ds" successfully rolled out'
    assert space.table("get", "sts,ds", "-o", "wide") == [
        ["NAME", "READY", "AGE", "CONTAINERS", "IMAGES"],
        ["statefulset.apps/st", "2/2", "AGE", "c", "busybox:1"],
        ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR", "AGE", "CONTAINERS",
         "IMAGES", "SELECTOR"],
        ["daemonset.apps/ds", "2", "2", "2", "2", "2", NONE, "AGE", "c", "busybox:1", "app=ds"],
    ]  # fmt: skip
    assert space("get", "pods", "-l", "app=st", "-o", "name").rows == ["pod/st-0", "pod/st-1"]
    rows = cells(space("describe", "sts", "st").out)
    assert ["Pods Status:", "2 Running / 0 Waiting / 0 Succeeded / 0 Failed"] in rows
    text = "Create Pod st-{} in StatefulSet st successful"
    assert [row[1:] for row in rows[-2:]] == [
        ["SuccessfulCreate", "AGE", "statefulset-controller", text.format(number)] for number in (0, 1)
    ]
    rows = cells(space("describe", "ds", "ds").out)
    assert ["Desired Number of Nodes Scheduled: 2"] in rows
    for what in ("sts/st", "ds/ds"):
        assert space("rollout", "restart", what).code == 0
        roll_out(space, what)
        history = space("rollout", "history", what).rows
        assert history[1:4] == ["REVISION  CHANGE-CAUSE", "1         <none>", "2         <none>"]
    gone = space("delete", "sts", "st", "--cascade=orphan")
    assert gone.out == f'statefulset.apps "st" deleted from {space.namespace} namespace\n'
    assert space("get", "pods", "-l", "app=st", "-o", "name").rows == ["pod/st-0", "pod/st-1"]


def test_jobs(space: Space) -> None:
    assert (
        space("create", "job", "good", "--image=busybox:1", "--", "echo", "hi").out
        == "job.batch/good created\n"
    )
    failing = space(
        "create", "job", "bad", "--image=busybox:1", "--dry-run=client", "-o", "yaml", "--", "false"
    )
    bad = yaml.safe_load(failing.out)
    bad["spec"]["backoffLimit"] = 0
    space.apply(bad)
    done = space("wait", "--for=condition=Complete", "job/good", "--timeout=20s")
    assert done.out == "job.batch/good condition met\n"
    space("wait", "--for=condition=Failed", "job/bad", "--timeout=20s")
    short = [row[:3] for row in space.table("get", "jobs")]
    assert short == [
        ["NAME", "STATUS", "COMPLETIONS"],
        ["bad", "Failed", "0/1"],
        ["good", "Complete", "1/1"],
    ]
    assert sorted(row[:4] for row in space.table("get", "pods", "--no-headers")) == [
        ["bad-XXXXX", "0/1", "Error", "0"],
        ["good-XXXXX", "0/1", "Completed", "0"],
    ]
    assert space("logs", "job/good").out == "hi\n"
    rows = cells(space("describe", "job", "good").out)
    assert ["Pods Statuses:", "0 Active (0 Ready) / 1 Succeeded / 0 Failed"] in rows
    assert [row[1:] for row in rows[-2:]] == [
        ["SuccessfulCreate", "AGE", "job-controller", "Created pod: good-XXXXX"],
        ["Completed", "AGE", "job-controller", "Job completed"],
    ]
    text = "Job has reached the specified backoff limit"
    warnings = space.table("get", "events", "--field-selector=type=Warning", "--no-headers")
    assert warnings == [["AGE", "Warning", "BackoffLimitExceeded", "job/bad", text]]
    space("delete", "job", "good")
    space("wait", "--for=delete", "pods", "-l", "job-name=good", "--timeout=20s")


def test_logs_of_a_deployment(space: Space) -> None:
    space(
        "create",
        "deployment",
        "web",
        "--image=busybox:1",
        "--replicas=2",
        "--",
        "sh",
        "-c",
        "echo hi; sleep 99",
    )
    roll_out(space)
    first = space("get", "pods", "-o", "name").rows[0]
    one = space("logs", "deployment/web")
    assert (one.out, one.err) == ("hi\n", f"Found 2 pods, using {first}\n")
    every = space("logs", "deployment/web", "--all-pods=true").rows
    assert [masked(line) for line in every] == ["[pod/web-HASH-XXXXX/busybox] hi"] * 2
    assert space("logs", "-l", "app=web").rows == ["hi", "hi"]


def test_objects_that_controllers_write_are_applied_and_edited(space: Space) -> None:
    wanted = workload("Deployment", "web", replicas=1)
    text = yaml.safe_dump(wanted)
    assert (
        space("apply", "--server-side", "-f", "-", text=text).out
        == "deployment.apps/web serverside-applied\n"
    )
    roll_out(space)
    assert (
        space("apply", "--server-side", "-f", "-", text=text).out
        == "deployment.apps/web serverside-applied\n"
    )
    assert space.run("diff", "--server-side", "-f", "-", text=text).code == 0
    space("set", "image", "deploy/web", "c=busybox:2")
    refused = space.run("apply", "--server-side", "-f", "-", text=text)
    assert refused.code == 1
    field = '.spec.template.spec.containers[name="c"].image'
    assert refused.err.startswith(
        f'error: Apply failed with 1 conflict: conflict with "kubectl-set" using apps/v1: {field}\n'
    )
    forced = space("apply", "--server-side", "--force-conflicts", "-f", "-", text=text)
    assert forced.out == "deployment.apps/web serverside-applied\n"
    roll_out(space)
    edited = space("edit", "deploy", "web", EDITOR="sed -i s/replicas:.1/replicas:\\ 2/")
    assert edited.out == "deployment.apps/web edited\n"
    unchanged = space("edit", "deploy", "web", EDITOR="true")
    assert unchanged.out == "" and "Edit cancelled, no changes made." in unchanged.err
    space("wait", "--for=jsonpath={.status.readyReplicas}=2", "deploy/web", "--timeout=20s")
    space.apply(workload("Deployment", "two"))
    roll_out(space, "deploy/two")
    assert space.apply(workload("Deployment", "two")).out == "deployment.apps/two unchanged\n"
    assert space.apply(workload("Deployment", "two", replicas=2)).out == "deployment.apps/two configured\n"
    same = space.run("diff", "-f", "-", text=yaml.safe_dump(workload("Deployment", "two", replicas=2)))
    assert (same.code, same.out) == (0, "")
    other = space.run("diff", "-f", "-", text=yaml.safe_dump(workload("Deployment", "two", replicas=3)))
    assert (other.code, {"-  replicas: 2", "+  replicas: 3"} <= set(other.rows)) == (1, True)
    for kind, patch in {
        "strategic": '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"busybox:3"}]}}}}',
        "merge": '{"spec":{"replicas":1}}',
        "json": '[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]',
    }.items():
        patched = space("patch", "deploy", "two", f"--type={kind}", "-p", patch)
        assert patched.out == "deployment.apps/two patched\n"
    # Meanwhile its controller writes what has become of the changes before.
    same = '{"spec":{"replicas":1}}'
    space.until(
        [["deployment.apps/two patched (no change)"]], "patch", "deploy", "two", "--type=merge", "-p", same
    )
    assert space("label", "deploy/two", "a-", "c=d").out == "deployment.apps/two modified\n"
    assert space("get", "deploy", "-l", "c=d", "--show-labels", "--no-headers").out.split()[-1] == "c=d"


def test_run(space: Space) -> None:
    made = space(
        "run", "p", "--image=busybox:1", "--restart=Never", "--env=A=B", "--command", "--", "printenv", "A"
    )
    assert made.out == "pod/p created\n"
    space("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/p", "--timeout=20s")
    assert space("logs", "p").out == "B\n"
    assert space.table("get", "pods", "--show-labels", "--no-headers") == [
        ["p", "0/1", "Completed", "0", "AGE", "run=p"]
    ]


def test_events_in_their_order(space: Space) -> None:
    space("run", "p", "--image=busybox:latest", "--", "pause")
    space("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    rows = cells(space("describe", "pod", "p").out)
    start = rows.index(["Events:"]) + 3
    image = '"busybox:latest"'
    pulled = f"Successfully pulled image {image} in MS (MS including waiting). Image size: 4194304 bytes."
    node = space("get", "pod", "p", "-o", "jsonpath={.spec.nodeName}").out
    assert [row[1:] for row in sorted(rows[start:], key=lambda row: row[3] != "default-scheduler")] == [
        ["Scheduled", "AGE", "default-scheduler", f"Successfully assigned {space.namespace}/p to {node}"],
        ["Pulling", "AGE", "kubelet", f"spec.containers{{p}}: Pulling image {image}"],
        ["Pulled", "AGE", "kubelet", f"spec.containers{{p}}: {pulled}"],
        ["Created", "AGE", "kubelet", "spec.containers{p}: Container created"],
        ["Started", "AGE", "kubelet", "spec.containers{p}: Container started"],
    ]  # fmt: skip
    assert {row[3] for row in space.table("get", "events", "--no-headers")} == {"pod/p"}
    assert {row[3] for row in cells(space("events", "--no-headers").out)} == {"Pod/p"}


def test_about_the_cluster(space: Space) -> None:
    server = space("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").out
    assert space("cluster-info").rows[0] == f"Kubernetes control plane is running at {server}"
    assert "Server Version: v1.37.2" in space("version").rows
    assert {"v1", "apps/v1", "batch/v1", "resource.k8s.io/v1"} <= set(space("api-versions").rows)
    assert space("auth", "can-i", "create", "deployments").out == "yes\n"
    account = f"--as=system:serviceaccount:{space.namespace}:default"
    refused = space.run("auth", "can-i", "list", "pods", account)
    assert (refused.code, refused.out) == (1, "no\n")
    assert ["*.*", "[]", "[]", "[*]"] in cells(space("auth", "can-i", "--list").out)
    assert space("get", "sa", "-o", "name").rows == ["serviceaccount/default"]
    assert space.table("get", "cm", "--no-headers") == [["kube-root-ca.crt", "1", "AGE"]]
    assert space.table("get", "leases", "-n", "kube-node-lease", "--no-headers") == [
        ["node-1", "node-1", "AGE"],
        ["node-2", "node-2", "AGE"],
    ]
    assert [space.namespace, "Active", "AGE"] in space.table("get", "namespaces")
    assert space("explain", "deployment.spec", "--recursive").rows[:2] == [
        "GROUP:      apps",
        "KIND:       Deployment",
    ]
