from __future__ import annotations

from pathlib import Path

import pytest

from clusters.interface import ClusterError
from drakit import tiers


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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("kind",), 'no tier "kind"; there are embedded, local'),
        (
            ("embedded", "1.36"),
            "an embedded cluster is Kubernetes 1.37 and no other; --tier local has 1.36",
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
