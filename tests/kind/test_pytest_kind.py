"""The suites in a project that uses pytest-kind, on the cluster of its `kind_cluster` fixture."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from kind_kit import ROOT
from test_kind_existing import MANIFESTS, describe

from clusters.kind import tools
from clusters.kind.engine import Engine

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]

CONFTEST = """
import os, shutil, subprocess
from pathlib import Path
import pytest
from clusters.kind.engine import Engine
from test_kind_daemonset import load_images

pytest_plugins = ["pytest_drakit"]


@pytest.fixture(scope="session")
def drakit_kubeconfig(kind_cluster, tmp_path_factory):
    words = ["load", "image-archive", os.environ["PROBE"], "--name", kind_cluster.name]
    subprocess.run([kind_cluster.kind_path, *words], check=True)
    engine = Engine(shutil.which("docker"), os.environ["DOCKER_HOST"])
    load_images(engine, kind_cluster.name, tmp_path_factory.mktemp("images"))
    return kind_cluster.kubeconfig_path
"""
# pytest-kind gives kind no configuration, and the kubelet of a sandbox needs one.
KIND = """#!/bin/sh
case "$1 $2" in "create cluster") exec {kind} "$@" --config {config} --wait 120s ;; esac
exec {kind} "$@"
"""
CONFIG = {
    "kind": "Cluster",
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "kubeadmConfigPatches": [
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nfailCgroupV1: false\n"
    ],
    "containerdConfigPatches": ['[plugins."io.containerd.grpc.v1.cri"]\n  restrict_oom_score_adj = true\n'],
}
NAME = "drakit-pytest-kind"


def test_the_suites_run_on_the_cluster_of_pytest_kind(engine: Engine, tmp_path: Path) -> None:
    found = tools.find("1.37", print)
    try:
        (tmp_path / "kind.yaml").write_text(yaml.safe_dump(CONFIG))
        kind = tmp_path / "kind"
        kind.write_text(KIND.format(kind=found.kind.path, config=tmp_path / "kind.yaml"))
        kind.chmod(0o755)
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_conformance.py").write_text("from pytest_drakit import test_requirement\n")
        describe(tmp_path / "driver.yaml", manifests=[str(MANIFESTS)])
        words = ["--drakit-driver=driver.yaml", f"--cluster-name={NAME}"]
        words += [f"--kind-bin={kind}", f"--kind-image={found.image}"]
        words += ["-k", "ALC-CON-12 or ALC-SCH-01", f"--rootdir={tmp_path}", "--junitxml=junit.xml"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=tmp_path,
            env={
                **engine.environment(),
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "kind")]),
                "PROBE": str(found.probe),
                "KIND_EXPERIMENTAL_DOCKER_NETWORK": NAME,
                "PYTEST_ADDOPTS": "",
            },
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        cases = ET.parse(tmp_path / "junit.xml").getroot().iter("testcase")
        names = [case.get("name") for case in cases if not case.findall("skipped")]
        assert names == ["test_requirement[ALC-SCH-01]", "test_requirement[ALC-CON-12]"]
        assert engine.run("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={NAME}") == ""
    finally:
        subprocess.run(
            [str(found.kind.path), "delete", "cluster", "--name", NAME], env=engine.environment(), check=False
        )
        networks = engine.run("network", "ls", "--format", "{{.Name}}").split()
        if NAME in networks:
            engine.run("network", "rm", NAME)
        found.engine.close()
