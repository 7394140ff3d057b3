"""The node image, and the program that containers of tests run in real ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from kind_kit import log_of, make_pod, remove_pod, until, wait_phase

from clusters.client import Client
from clusters.kind.engine import Engine
from clusters.kind.image import archive, node_image
from clusters.kind.image.probe import SOURCES
from clusters.kind.image.recipe import REPOSITORY
from clusters.observation import parse_observation
from drakit.state import Record

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]


def go(folder: Path, *words: str) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_program_hold() -> None:
    go(SOURCES / "probe", "go", "test", "./...")


@pytest.mark.parametrize("name", ["coredns", "pause", "probe"])
def test_sources_are_formatted_and_without_suspicion(name: str) -> None:
    assert go(SOURCES / name, "gofmt", "-l", ".") == ""
    go(SOURCES / name, "go", "vet", "./...")


def test_an_image_that_was_made_here_carries_its_recipe(engine: Engine) -> None:
    image = node_image(engine, "1.37", print)
    if image.startswith(f"{REPOSITORY}:"):
        form = f'{{{{index .Config.Labels "{archive.LABEL}"}}}}'
        assert image.rpartition("-")[2] == engine.run("image", "inspect", "--format", form, image).strip()


def ended(api: Client, name: str) -> int:
    """The exit code of a Pod's only container, which ends."""

    def code() -> list[int]:
        statuses = (api.get("v1", "pods", name, "default").get("status") or {}).get("containerStatuses") or []
        return [
            entry["state"]["terminated"]["exitCode"] for entry in statuses if "terminated" in entry["state"]
        ]

    [found] = until(code, f"Pod {name} has ended")
    return int(found)


def test_the_script_of_a_seed_prints_its_variables_and_ends_on_demand(api: Client, record: Record) -> None:
    script = "export; trap 'exit 0' TERM; sleep 9999 & wait"
    container = {"image": "ubuntu:22.04", "command": ["bash", "-c"], "args": [script]}
    make_pod(api, "script", {"containers": [container], "terminationGracePeriodSeconds": 100})
    wait_phase(api, "script", "Running")
    assert 'declare -x KUBERNETES_SERVICE_PORT="443"\n' in log_of(api, "script")
    # Without the trap it would take as long as its grace period: process 1 does not die of SIGTERM.
    api.delete("v1", "pods", "script", "default", body={"gracePeriodSeconds": 100})
    until(lambda: api.find("v1", "pods", "script", "default") is None, "the end of the script", 90.0)


def test_exit_codes_come_through(api: Client, record: Record) -> None:
    make_pod(api, "code", {"containers": [{"command": ["probe", "--exit", "3"]}]})
    assert ended(api, "code") == 3
    seen = parse_observation(log_of(api, "code"))
    assert seen.arguments == ("probe", "--exit", "3")
    assert seen.hostname == "code"
    assert seen.devices == ()
    assert {mount.destination for mount in seen.mounts} == {
        "/etc/hosts",
        "/dev/termination-log",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    remove_pod(api, "code")


def test_without_a_gpu_there_is_no_nvidia_smi(api: Client, record: Record) -> None:
    container = {
        "image": "doc-cn-beijing.cr.volces.com/vke/gpu-burn:1.0",
        "command": ["sh", "-c", "nvidia-smi -L; exit $?"],
    }
    make_pod(api, "smi", {"containers": [container]})
    assert ended(api, "smi") == 127
    assert log_of(api, "smi") == "sh: nvidia-smi: command not found\n"
    remove_pod(api, "smi")


def test_a_privileged_container_may_use_all_devices(api: Client, record: Record) -> None:
    make_pod(api, "all", {"containers": [{"securityContext": {"privileged": True}}]})
    wait_phase(api, "all", "Running")
    devices = parse_observation(log_of(api, "all")).devices
    assert {device.access for device in devices if device.type in "bc"} == {"rwm"}
    remove_pod(api, "all")


def test_images_start_what_they_are_known_for(api: Client, record: Record) -> None:
    # A shell whose standard input is at its end.
    make_pod(api, "shell", {"containers": [{"image": "ubuntu:22.04", "command": None}]})
    assert ended(api, "shell") == 0
    make_pod(api, "stays", {"containers": [{"image": "drakit/probe:1", "command": None}]})
    wait_phase(api, "stays", "Running")
    for name in ("shell", "stays"):
        remove_pod(api, name)
