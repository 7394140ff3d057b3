"""More commands to compare: every kind in every form, from explain to managed fields."""

from __future__ import annotations

from typing import Any

import yaml
from kubectl_kit import Kubectl, Space

DRA = "resource.k8s.io/v1"
KINDS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "pdb", "configmap", "secret",
         "serviceaccount", "resourceclaim", "resourceclaimtemplate", "role", "rolebinding", "controllerrevision",
         "resourcequota")  # fmt: skip
"""Kinds whose objects are looked at in every form."""

CLUSTER_KINDS = ("deviceclass", "resourceslice", "namespace", "node", "clusterrole/view", "devicetaintrule")


def manifests() -> list[dict[str, Any]]:
    container = {
        "name": "c",
        "image": "busybox:1",
        "command": ["sleep", "10000"],
        "ports": [{"containerPort": 80, "name": "http"}],
        "env": [
            {"name": "A", "value": "b"},
            {"name": "P", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "M", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k", "optional": True}}},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1"}},
        "volumeMounts": [
            {"name": "v", "mountPath": "/v"},
            {"name": "s", "mountPath": "/s", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "m", "configMap": {"name": "cm"}},
        {
            "name": "d",
            "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
    ]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}

    def workload(kind: str, name: str, **more: Any) -> dict[str, Any]:
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        own = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own}

    job = {"template": {"spec": {**spec, "restartPolicy": "Never"}}}
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "none.example.com",
                                  "selectors": [{"cel": {"expression": 'device.driver == "d"'}}]}},
        {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "none.example.com"},
                                         {"name": "b", "deviceClassName": "none.example.com", "count": 2}]},
    ]  # fmt: skip
    devices = {
        "requests": requests,
        "constraints": [{"requests": ["r"], "matchAttribute": "d.example.com/x"}],
        "config": [
            {"requests": ["r"], "opaque": {"driver": "d.example.com", "parameters": {"a": 1, "b": [1, 2]}}}
        ],
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v", "m": "a\nb\n"},
         "binaryData": {"b": "AAEC"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "q"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}},
        workload("Deployment", "dep", replicas=2),
        workload("StatefulSet", "sts", serviceName="sts"),
        workload("DaemonSet", "ds"),
        workload("ReplicaSet", "rs"),
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
         "spec": {**job, "completions": 2, "parallelism": 2, "completionMode": "Indexed"}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cj"},
         "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"},
         "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "dep"}}}},
        {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "claim"}, "spec": {"devices": devices}},
        {"apiVersion": DRA, "kind": "ResourceClaimTemplate", "metadata": {"name": "tmpl"},
         "spec": {"metadata": {"labels": {"x": "z"}}, "spec": {"devices": {"requests": requests[:1]}}}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
         "rules": [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "rb"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
         "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                      {"kind": "ServiceAccount", "name": "sa", "namespace": "default"}]},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
         "spec": {"hard": {"count/configmaps": "10"}}},
    ]  # fmt: skip


def test_every_kind_in_every_form(space: Space) -> None:
    space.apply(*manifests())
    for what in ("deployment/dep", "statefulset/sts", "daemonset/ds"):
        space("rollout", "status", what, "--timeout=60s")
    space("wait", "--for=jsonpath={.status.readyReplicas}=1", "rs/rs", "--timeout=60s")
    space("wait", "--for=jsonpath={.status.ready}=2", "job/job", "--timeout=60s")
    space("wait", "--for=jsonpath={.status.currentHealthy}=2", "pdb/pdb", "--timeout=60s")
    for kind in KINDS:
        space("get", kind)
        space("get", kind, "-o", "wide", "--show-labels")
        space("get", kind, "-o", "name")
        space("describe", kind)
    for kind in KINDS:
        if kind not in ("configmap", "controllerrevision"):
            space("get", kind, "-o", "yaml", "--show-managed-fields")
    space("get", "all")
    space("get", "pods", "--sort-by=.metadata.name")
    space("get", "pod", "sts-0", "-o", "wide", "--show-labels")
    space("describe", "pod", "sts-0")
    space("get", "pod", "sts-0", "-o", "yaml", "--show-managed-fields")
    space("diff", "-f", "-", text=yaml.safe_dump_all(manifests()))
    space.apply(*manifests())


def test_kinds_of_the_cluster(whole_cluster: Kubectl) -> None:
    for kind in CLUSTER_KINDS:
        whole_cluster("get", kind)
        whole_cluster("get", kind, "-o", "wide")
    for kind in ("deviceclass", "resourceslice"):
        whole_cluster("describe", kind)
        whole_cluster("get", kind, "-o", "yaml", "--show-managed-fields")
    whole_cluster("describe", "namespace", "kube-public")
    whole_cluster("version")


def test_explain_every_kind(whole_cluster: Kubectl) -> None:
    for kind in (*KINDS, *CLUSTER_KINDS, "pod", "bindings", "selfsubjectaccessreviews.authorization.k8s.io"):
        whole_cluster("explain", kind.partition("/")[0], "--recursive")
    for path in (
        "pod.spec.containers.resources",
        "resourceclaim.spec.devices.requests.exactly.selectors.cel",
    ):
        whole_cluster("explain", path)
    whole_cluster.run("explain", "pod.spec.nothing")


def test_rights(space: Space) -> None:
    space.apply(*manifests())
    account = f"--as=system:serviceaccount:{space.namespace}:sa"
    for words in (
        ("create", "pods"),
        ("list", "pods", "--subresource=log"),
        ("get", "resourceslices"),
        ("*", "*"),
        ("get", "/version"),
        ("use", "nothing.example.com"),
    ):
        space.run("auth", "can-i", *words)
        space.run("auth", "can-i", *words, account)
        space.run("auth", "can-i", *words, "--as=u")
    space.run("get", "pods", account)
    space.run("get", "nodes", account)
    space.run("delete", "configmap", "cm", account)
    space.run("auth", "can-i", "--list", account)


def test_mistakes(space: Space) -> None:
    space.apply(*manifests())
    wrong: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "UPPER"}, "spec": {"containers": []}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], "x": 1}},
        {"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "p"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": "two"}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
         "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
        {"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "c"},
         "spec": {"devices": {"requests": [{"name": "r"}]}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a/b": "c"}},
    ]  # fmt: skip
    for each in wrong:
        for words in (("create",), ("apply",), ("apply", "--server-side"), ("create", "--dry-run=server")):
            space.run(*words, "-f", "-", text=yaml.safe_dump(each))
    space.run("get", "nothing")
    space.run("get", "pods", "nothing")
    space.run("delete", "cm", "nothing")
    space.run("patch", "cm", "cm", "-p", "{")
    space.run("patch", "deploy", "dep", "-p", '{"spec":{"selector":{"matchLabels":{"a":"b"}}}}')
    space.run("patch", "pod", "sts-0", "-p", '{"spec":{"nodeName":"other"}}')
    space.run("scale", "deploy", "dep", "--replicas=3", "--current-replicas=9")
    space.run("label", "cm", "cm", "a=b c")
    space.run("label", "cm", "cm", "x=1")
    space.run("label", "cm", "cm", "x=2")
    space.run("wait", "--for=condition=Ready", "pod/nothing", "--timeout=1s")
    space.run("logs", "nothing")
    space.run("logs", "sts-0", "-c", "nothing")
    space.run("rollout", "undo", "deploy/dep", "--to-revision=9")
    space.run("exec", "nothing", "--", "ls")


def test_writing_in_every_way(space: Space) -> None:
    text = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    )
    other = text.replace("'1'", "'2'")
    for words in (("create",), ("create",), ("apply",), ("apply",), ("replace",)):
        space.run(*words, "-f", "-", text=text)
    space("apply", "-f", "-", text=other)
    space("apply", "--server-side", "-f", "-", text=text)
    space.run("apply", "--server-side", "--field-manager=other", "-f", "-", text=other)
    space("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=other)
    space("get", "cm", "c", "-o", "yaml", "--show-managed-fields")
    space.run("diff", "-f", "-", text=text)
    space.run("diff", "--server-side", "--field-manager=other", "-f", "-", text=text)
    for words in (
        ("-p", '{"data":{"b":"2"}}'),
        ("--type=merge", "-p", '{"data":{"b":null}}'),
        ("--type=json", "-p", '[{"op":"replace","path":"/data/a","value":"3"}]'),
        ("--type=json", "-p", '[{"op":"test","path":"/data/a","value":"9"}]'),
        ("--type=json", "-p", '[{"op":"remove","path":"/data/zzz"}]'),
    ):
        space.run("patch", "cm", "c", *words)
    space("annotate", "cm", "c", "note=z")
    space("edit", "cm", "c", EDITOR='sed -i s/\\"3\\"/\\"4\\"/')
    space("get", "cm", "c", "-o", "yaml", "--show-managed-fields")
    space("replace", "--force", "-f", "-", text=other)
    space("delete", "cm", "c", "--dry-run=server")
    space("delete", "cm", "c")
    for words in (
        ("deployment", "d", "--image=busybox:1"),
        ("job", "j", "--image=busybox:1"),
        ("cronjob", "k", "--image=busybox:1", "--schedule=0 0 1 1 *"),
        ("quota", "q", "--hard=count/pods=2"),
        ("role", "r", "--verb=get", "--resource=pods"),
        ("rolebinding", "b", "--role=r", "--user=u"),
        ("serviceaccount", "t"),
        ("secret", "generic", "g", "--from-literal=a=b"),
        ("pdb", "p", "--selector=a=b", "--min-available=1"),
    ):
        space("create", *words, "--dry-run=server", "-o", "yaml")
    space("run", "p", "--image=busybox:1", "--dry-run=server", "-o", "yaml")
