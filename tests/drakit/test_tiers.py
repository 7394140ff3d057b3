from __future__ import annotations

from pathlib import Path

import pytest

from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from conformance.cluster.waits import START_SECONDS
from drakit import existing, tiers


def test_the_default_is_embedded_in_the_latest_version() -> None:
    tier = tiers.find(tiers.DEFAULT)
    assert (tier.name, tier.version, tier.options) == ("embedded", "1.37", ())
    assert "virtual_clock" in tier.capabilities


def test_a_local_tier_tells_how_to_choose_it_again() -> None:
    tier = tiers.find("local", "v1.36.3", Path("/opt/k8s"))
    assert tier.version == "1.36"
    words = ("--tier", "local", "--kubernetes-version", "1.36.3", "--binaries", "/opt/k8s")
    assert tier.options == words
    assert tiers.find("local").options == ("--tier", "local")


def test_only_kind_clusters_are_kept() -> None:
    assert tiers.find("kind", keep=True).options == ("--tier", "kind", "--keep")
    assert tiers.find("kind", "1.36").options == ("--tier", "kind", "--kubernetes-version", "1.36")
    with pytest.raises(ClusterError, match="--keep: kind clusters can be kept, and no others"):
        tiers.find("local", keep=True)


def test_a_kept_cluster_is_not_said_to_start_before_it_is_known_to() -> None:
    spec = ClusterSpec()
    assert (
        tiers.find("kind").beginning(spec, "1 nodes") == "starting a kind cluster (Kubernetes 1.37): 1 nodes"
    )
    kept = tiers.find("kind", keep=True).beginning(spec, "1 nodes")
    assert kept == "looking for a kept kind cluster (Kubernetes 1.37): 1 nodes"


@pytest.mark.parametrize("version", ["", "1.37", "v1.37", "1.37.2", "v1.37.2"])
def test_the_release_of_embedded_clusters_can_be_named_in_full(version: str) -> None:
    assert tiers.find("embedded", version).version == "1.37"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("minikube",), 'no tier "minikube"; there are embedded, local, kind'),
        (
            ("kind", "", Path("/opt")),
            "--binaries: a kind cluster has those of its node image; give --tier local as well",
        ),
        (
            ("embedded", "1.36"),
            "an embedded cluster is Kubernetes 1.37 and no other; --tier local has 1.36",
        ),
        (
            ("embedded", "v1.37.1"),
            "an embedded cluster is Kubernetes 1.37.2 and no other patch release; give 1.37 or --tier local for 1.37.1",
        ),
        (("local", "1.33"), "Kubernetes 1.33 is not known; there are 1.37, 1.36, 1.35, 1.34"),
        (("local", "latest"), "Kubernetes latest is not known; there are 1.37, 1.36, 1.35, 1.34"),
        (
            ("embedded", "", Path("/opt")),
            "--binaries: an embedded cluster uses none; give --tier local as well",
        ),
    ],
)
def test_what_a_tier_does_not_have_is_told(arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(ClusterError) as error:
        tiers.find(*arguments)  # type: ignore[arg-type]
    assert str(error.value) == text


def test_that_a_local_cluster_with_nodes_needs_root_is_told_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    tier = tiers.find("local")
    with pytest.raises(ClusterError, match="a local cluster with nodes needs root"):
        tier.check(ClusterSpec(nodes=(NodeSpec(),)))
    tier.check(ClusterSpec(nodes=()))
    tier.check(ClusterSpec(nodes=(NodeSpec(),), control_plane=False))


def test_on_clusters_of_others_kubelets_have_time_for_a_second_try() -> None:
    # A kubelet's regular turn comes after 60 s, longer by up to a half of it (resyncInterval and its jitter).
    assert START_SECONDS * existing.PATIENCE > 60 * 1.5
