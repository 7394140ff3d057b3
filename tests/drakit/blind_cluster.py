"""A cluster with the reference driver whose runtime ignores CDI devices: `blind_cluster.py KUBECONFIG`.

It is there when the script has printed a line, and goes when the script's standard input ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

import drakit.quiet  # noqa: E402, F401 - before anything that loads gRPC
from clusters import descriptor  # noqa: E402
from clusters.embedded.cluster import EmbeddedCluster  # noqa: E402
from clusters.interface import ClusterSpec, NodeSpec  # noqa: E402
from conformance import catalogue  # noqa: E402
from drakit.drivers import Drivers  # noqa: E402
from drakit.up import reference_driver  # noqa: E402
from tests.mutants.components.break_containers import runtime_ignores_cdi  # noqa: E402


def main() -> None:
    """Start the cluster and wait."""
    runtime_ignores_cdi()
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec(), NodeSpec()))) as cluster:
        cluster.wait_ready()
        drivers = Drivers(cluster, descriptor.load(reference_driver(), catalogue.capabilities()))
        drivers.start()
        drivers.wait_published()
        drivers.wait_registered()
        cluster.write_kubeconfig(Path(sys.argv[1]))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


main()
