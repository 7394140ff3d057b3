"""The commands on a cluster that runs: what they foretell is what its scheduler then does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cli_kit import until
from clusters_kit import Up

from clusters.existing import kubeconfig

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def test_what_is_foretold_comes_true_and_nothing_is_changed(up: Up, tmp_path: Path) -> None:
    record = up.record("--nodes", "2")
    client = kubeconfig.load(Path(record["kubeconfig"])).client()
    cluster = ("--kubeconfig", record["kubeconfig"])
    classes = [entry["metadata"]["name"] for entry in client.list("resource.k8s.io/v1", "deviceclasses")]
    nodes = [entry["metadata"]["name"] for entry in client.list("v1", "nodes")]
    exactly = {"deviceClassName": sorted(classes)[0], "count": 2}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "foretold", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "foretold", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": nodes[-1]},
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "command": ["sleep", "600"],
                    "resources": {"claims": [{"name": "r"}]},
                }
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": "foretold"}],
        },
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump_all([claim, pod]))

    done = up("allocate", *cluster, "-f", tmp_path / "pod.yaml", "--json")
    assert (done.code, done.err) == (0, "")
    [attempt] = json.loads(done.out)["attempts"]
    assert client.find("resource.k8s.io/v1", "resourceclaims", "foretold", "default") is None
    done = up("explain", "pod", "foretold", *cluster, "-f", tmp_path / "pod.yaml", "--json")
    explained = json.loads(done.out)
    assert (done.code, explained["state"], explained["node"]) == (0, "possible", attempt["node"])

    client.create("resource.k8s.io/v1", "resourceclaims", claim, "default")
    client.create("v1", "pods", pod, "default")
    until(
        lambda: client.get("v1", "pods", "foretold", "default")["spec"].get("nodeName"), "the Pod has a node"
    )
    assert client.get("v1", "pods", "foretold", "default")["spec"]["nodeName"] == attempt["node"] == nodes[-1]
    allocation = client.get("resource.k8s.io/v1", "resourceclaims", "foretold", "default")["status"][
        "allocation"
    ]
    foretold = attempt["claims"][0]["allocation"]
    assert allocation["devices"] == foretold["devices"]
    assert allocation["nodeSelector"] == foretold["nodeSelector"]

    done = up("devices", *cluster, "--json")
    held = [row for row in json.loads(done.out)["devices"] if row["claims"]]
    assert [(row["state"], row["claims"], row["pods"]) for row in held] == [
        ("in use", ["default/foretold"], ["default/foretold"])
    ] * 2
    done = up("explain", "pod", "foretold", *cluster)
    assert done.out.startswith(
        f"pod default/foretold: runs on node {nodes[-1]}\nclaim foretold: allocated,reserved\n"
    )
    assert up("allocate", *cluster).out.startswith("Nothing waits: ")
    client.close()
