"""What drakit up says when it cannot do what it was asked, and that nothing is left then."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cli_kit import SECONDS
from clusters_kit import QUICK, Up

pytestmark = pytest.mark.process


_USAGE = "(drakit up --help tells what there is)"
_NAME = 'is no name for a cluster: 1 to 40 lower-case letters, digits and "-", such as "dev-2"'
MISTAKES = {
    "--feature-gates DRADeviceTaint=true": (
        '--feature-gates: unrecognized feature gate: DRADeviceTaint, did you mean "DRADeviceTaints"?'
    ),
    "--feature-gates DynamicResourceAllocation=false": (
        "--feature-gates: cannot set feature gate DynamicResourceAllocation to false, feature is locked to true "
        "in Kubernetes 1.37; it can be set in 1.34"
    ),
    "--feature-gates DRADeviceCompatibilityGroups=true,DRAPartitionableDevices=false": (
        "--feature-gates: DRADeviceCompatibilityGroups is enabled, but depends on features that are disabled: "
        "[DRAPartitionableDevices]"
    ),
    "--feature-gates DRADeviceTaints": (
        "--feature-gates: missing bool value for DRADeviceTaints: "
        "write DRADeviceTaints=true or DRADeviceTaints=false"
    ),
    "--runtime-config resource.k8s.io/v1beta1=on": (
        '--runtime-config: invalid value of resource.k8s.io/v1beta1=on: "on" is neither true nor false'
    ),
    "--machine dual-numa-16": (
        '--machine: no machine is named "dual-numa-16"; there are a30-1, dual-numa-4, dual-numa-8 and gpus-N '
        'for N GPUs; did you mean "dual-numa-8"?'
    ),
    "--machine ./m.yaml": "--machine: ./m.yaml: cannot be read: No such file or directory",
    "--machine a30-1 --gpus 1": "--gpus and --machine exclude each other: a machine has its number of GPUs",
    "--driver d.yaml --no-driver": "--driver and --no-driver exclude each other",
    "--scheduler-config s.yaml": "--scheduler-config s.yaml: cannot be read: No such file or directory",
    "--name My_Lab": f'"My_Lab" {_NAME}',
    "--name=": f'"" {_NAME}',
    "--name ../x": f'"../x" {_NAME}',
    "--nodes -1": f"Invalid value for '--nodes': -1 is not in the range 0<=x<=200. {_USAGE}",
    "--nodes two": f"Invalid value for '--nodes': 'two' is not a valid integer range. {_USAGE}",
    "--port 65536": f"Invalid value for '--port': 65536 is not in the range 0<=x<=65535. {_USAGE}",
    "lab": f"Got unexpected extra argument (lab) {_USAGE}",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items(), ids=list(MISTAKES))
def test_wrong_usage_is_one_line(up: Up, words: str, text: str) -> None:
    assert up.refused(*words.split()) == text


def test_an_api_version_that_is_not_there_is_told_with_those_that_are(up: Up) -> None:
    text = up.refused("--runtime-config", "resource.k8s.io/v9=true")
    assert text.startswith('--runtime-config: unknown API version "resource.k8s.io/v9"; allowed: ')
    assert ", api/all, " in text
    assert "resource.k8s.io/v1, resource.k8s.io/v1alpha3, resource.k8s.io/v1beta1" in text


def test_a_descriptor_with_mistakes_is_told(up: Up) -> None:
    path = up.cli.write("schemaVersion: 1\nname: gpu.example.com\nstart: {comand: [x]}\n")
    text = up.refused("--driver", path)
    assert f'{path}: start.comand: unknown field; did you mean "command"?' in text
    assert up.refused("--driver", "absent.yaml") == f"{up.cli.folder}/absent.yaml: no such file"


def scheduler(up: Up, arguments: dict[str, str], *words: str) -> str:
    profile = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": "DynamicResources", "args": arguments}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "profiles": [profile],
    }
    path = up.cli.write(yaml.safe_dump(document), "s.yaml")
    text = up.refused(*QUICK, "--scheduler-config", path, *words)
    return text.removeprefix(f"--scheduler-config {path}: ")


# The texts are kube-scheduler's.
_ARGUMENT = "profiles[0].pluginConfig[0].args.bindingTimeout"
TIMEOUTS = {
    "500ms": f'{_ARGUMENT}: Invalid value: "500ms": must be at least 1 second',
    "-5s": f'{_ARGUMENT}: Invalid value: "-5s": must be at least 1 second',
    "abc": (
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin DynamicResources: "
        'time: invalid duration "abc"'
    ),
}


@pytest.mark.parametrize(("value", "text"), TIMEOUTS.items(), ids=list(TIMEOUTS))
def test_a_wrong_timeout_of_the_scheduler_is_told_as_it_tells_it(up: Up, value: str, text: str) -> None:
    assert scheduler(up, {"bindingTimeout": value}) == text


def test_a_timeout_without_its_gate_is_told_as_the_scheduler_tells_it(up: Up) -> None:
    gate = ("--feature-gates", "DRADeviceBindingConditions=false")
    assert scheduler(up, {"bindingTimeout": "60s"}, *gate) == (
        "profiles[0].pluginConfig[0].args.bindingTimeout: Forbidden: DRADeviceBindingConditions or "
        "DRAResourceClaimDeviceStatus feature gate is disabled"
    )


def test_a_scheduler_configuration_that_is_none_is_told(up: Up) -> None:
    path = up.cli.write("a: b: c\n", "s.yaml")
    text = up.refused(*QUICK, "--scheduler-config", path)
    assert text.startswith(f"--scheduler-config {path}: ") and "mapping values are not allowed" in text
    path = up.cli.write(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n",
        "s.yaml",
    )
    text = up.refused(*QUICK, "--scheduler-config", path)
    assert text == f'--scheduler-config {path}: strict decoding error: unknown field "profile"'


def test_a_port_that_is_taken_is_told_with_a_way_out(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = up.refused(*QUICK, "--port", port)
    assert text.startswith(f"the API server cannot listen on 127.0.0.1:{port}: ")
    assert "choose another port (0 takes a free one)" in text


def test_a_state_folder_that_cannot_be_is_told(up: Up, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    text = up.refused(*QUICK, XDG_STATE_HOME=str(blocked))
    assert text == f"{blocked}/drakit/clusters/drakit: Not a directory"
    for words in (["status"], ["down"]):
        done = up(*words, XDG_STATE_HOME=str(blocked))
        assert "Traceback" not in done.err


def test_missing_permissions_are_told(up: Up) -> None:
    up.state.mkdir(mode=0o500)
    words = [sys.executable, "-m", "drakit", "up", *QUICK]
    if os.getuid() == 0:
        # Root may write everywhere unless it gives that right away.
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv")
        words = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", *words]
    run = subprocess.run(
        words, env=up.environment(), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"drakit: {up.state}/drakit: Permission denied\n"
    up.check_clean()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 64 KiB with room for 8 files and folders, at a place with a short name."""
    disk = Path(tempfile.mkdtemp(prefix="dd-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        disk.rmdir()
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
        disk.rmdir()


@pytest.mark.parametrize("pages", [0, 1])
def test_a_full_disk_below_the_state_is_told(up: Up, small_disk: Path, pages: int) -> None:
    clusters = small_disk / "drakit" / "clusters"
    clusters.mkdir(parents=True)
    # Without a free page of 4 KiB the lock cannot be written, with one the kubeconfig.
    (small_disk / "filler").write_bytes(b"x" * 4096 * (16 - pages))
    text = up.refused(*QUICK, XDG_STATE_HOME=str(small_disk))
    assert text.endswith("No space left on device"), text
    assert not list(clusters.iterdir())


def test_a_full_temporary_folder_is_told(up: Up, small_disk: Path) -> None:
    # Its own root and the folder of the cluster are two of the eight; a node has more than six.
    text = up.refused(*QUICK, TMPDIR=str(small_disk))
    assert text == (
        f"cannot use the temporary folder {small_disk}: No space left on device; set TMPDIR to another"
    )
    assert not list(small_disk.iterdir())


def test_files_that_must_not_grow_are_told(up: Up) -> None:
    # 1 KiB: a kubeconfig has more.
    words = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", sys.executable, "-m", "drakit", "up", *QUICK]
    run = subprocess.run(
        words,
        env=up.environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 2, run
    assert "File too large" in run.stderr and "Traceback" not in run.stderr, run.stderr
    up.check_clean()


def test_a_temporary_folder_with_too_long_a_name_is_told(up: Up, tmp_path: Path) -> None:
    long = tmp_path / ("t" * 60)
    long.mkdir()
    text = up.refused("--nodes", "1", TMPDIR=str(long))
    assert text.startswith(
        f"the temporary folder {long} has too long a name: paths of the driver's sockets would have "
    )
    assert text.endswith("set TMPDIR to a shorter folder such as /tmp")
    assert not list(long.iterdir())


def test_a_kubelet_needs_short_names_too(up: Up, tmp_path: Path) -> None:
    long = tmp_path / ("t" * 60)
    long.mkdir()
    text = up.refused(*QUICK, TMPDIR=str(long))
    assert text.startswith(f"the temporary folder {long} has too long a name: paths of a kubelet's sockets ")


def test_without_a_home_the_state_has_no_place(up: Up) -> None:
    # A user that the system does not know, so that no home can be looked up either.
    code = """
import pathlib
def home(): raise RuntimeError
pathlib.Path.home = home
from drakit import main
raise SystemExit(main.main(["status"]))
"""
    known = {key: value for key, value in up.environment().items() if key not in ("HOME", "XDG_STATE_HOME")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=known, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    told = "drakit: no home folder is known; set HOME, or XDG_STATE_HOME to a folder\n"
    assert (run.returncode, run.stderr) == (2, told)


def test_a_relative_state_home_is_no_state_home(up: Up, tmp_path: Path) -> None:
    # As the XDG base directory specification has it.
    done = up("status", "--name", "lab", XDG_STATE_HOME="here", HOME=str(tmp_path))
    assert (done.code, done.err) == (2, 'drakit: no cluster "lab"; "drakit up --name lab" makes one\n')
    assert not (up.cli.folder / "here").exists()
