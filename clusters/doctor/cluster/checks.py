"""Every check of a cluster, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from clusters.doctor.cluster import (
    claim_checks,
    dropped,
    gate_checks,
    node_checks,
    owner_checks,
    slice_checks,
)
from clusters.doctor.cluster.model import ClusterCheck

CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (
    *gate_checks.CHECKS,
    *node_checks.CHECKS,
    *owner_checks.CHECKS,
    *slice_checks.CHECKS,
    *claim_checks.CHECKS,
    *dropped.CHECKS,
)
