"""What `drakit doctor --kubeconfig` tells of feature gates and of what it could not read."""

from __future__ import annotations

from typing import Any

import pytest
from doctor_cluster_scene import CHECKS, UNKNOWN, scene

from clusters import gates
from clusters.client import Client, ClientError
from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.cluster.gate_checks import table
from clusters.doctor.cluster.snapshot import Snapshot, Values, from_flags, read
from clusters.doctor.model import Wanted


def test_the_table_says_what_each_component_has() -> None:
    values = gates.effective({"DRAListTypeAttributes": True})
    old = dict.fromkeys(gates.GATES["1.34"], True)
    snapshot = Snapshot(
        0,
        "v1.37.2",
        components={"kube-apiserver": Values(values, "metrics"), "kube-scheduler": Values(problem="refused")},
        kubelets={"n1": Values(old, "metrics")},
    )
    rows = table(snapshot)
    assert rows["DRAListTypeAttributes"] == {
        "kube-apiserver": "on",
        "kube-scheduler": "unknown",
        "kubelet of n1": "absent",
    }
    assert rows["DRADerivedAttributes"]["kube-apiserver"] == "off"
    assert "PodLevelResources" not in rows


def _static_pod(image: str, *command: str) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {"containers": [{"image": image, "command": list(command)}]}}


@pytest.mark.parametrize(
    ("command", "derived", "taints"),
    [
        (("kube-scheduler", "--v=2"), False, True),
        (("kube-scheduler", "--feature-gates=Other=true,DRADerivedAttributes=true"), True, True),
        (("kube-scheduler", "--feature-gates", "DRADeviceTaints=false"), False, False),
        (("sh", "-c", "exec kube-scheduler --feature-gates=DRADerivedAttributes=true"), True, True),
    ],
)
def test_flags_of_static_pods_tell_gates(command: tuple[str, ...], derived: bool, taints: bool) -> None:
    found = from_flags(_static_pod("registry.k8s.io/kube-scheduler:v1.37.2", *command), "v1.37.2")
    assert (found.source, found.on["DRADerivedAttributes"], found.on["DRADeviceTaints"]) == (
        "flags",
        derived,
        taints,
    )


def test_flags_are_read_by_the_version_of_the_image() -> None:
    found = from_flags(_static_pod("mirror/kube-scheduler:v1.34.1@sha256:0", "kube-scheduler"), "v1.37.2")
    assert "DRADerivedAttributes" not in found.on
    assert found.on["DRADeviceTaints"] is False
    assert from_flags(_static_pod("x:v1.20.1", "x"), "v1.37.2").problem.startswith(
        "Kubernetes 1.20 is not known"
    )


def test_what_may_not_be_read_is_unknown() -> None:
    with scene() as found:

        class Stranger(Client):
            """A user who may see the version and nothing else."""

            def request(self, method: str, path: str, **more: Any) -> Any:
                if path in ("/version", "/apis"):
                    return super().request(method, path, **more)
                raise ClientError(403, "Forbidden", f"you cannot list {path}")

        stranger = Stranger.__new__(Stranger)
        stranger.__dict__ = dict(found.client.__dict__)
        snapshot = read(stranger)
        problems = {check.id: check.run(snapshot, Wanted()) for check in CLUSTER_CHECKS}
    for name in ("kubelet-known-bad", "two-owners-slices", "claim-devices", "pod-pending"):
        [problem] = problems[name]
        assert (problem.state, problem.seen.split(" cannot")[0]) == (
            UNKNOWN,
            {"kubelet-known-bad": "nodes", "two-owners-slices": "resourceslices"}.get(
                name, "pods" if name == "pod-pending" else "resourceclaims"
            ),
        )
    assert problems["api-versions"] == []


def test_many_kubelets_are_not_all_asked() -> None:
    with scene() as found:
        for number in range(3):
            found.node(f"n{number}")
        snapshot = read(found.client, kubelets=2)
    assert (sorted(snapshot.kubelets), snapshot.not_asked) == (["n0", "n1"], 1)
    assert "not asked of 1 more kubelets" in [
        item.seen for item in CHECKS["gates-agree"].run(snapshot, Wanted())
    ]
