"""The rest of the container contract: images, direct commands, observations."""

from __future__ import annotations

import json

import pytest
from container_kit import run

from clusters.containers import durations
from clusters.containers.images import PAUSE, command_line, full_name, resolve
from clusters.containers.view import ContainerView, VisibleDevice, VisibleMount
from clusters.observation import ObservationError, parse_observation

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:22.04", "docker.io/library/ubuntu:22.04"),
        ("vendor/gpu-burn", "docker.io/vendor/gpu-burn:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("reg:5000/x", "reg:5000/x:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        (f"busybox:1@{DIGEST}", f"docker.io/library/busybox@{DIGEST}"),
    ],
)
def test_image_names_are_completed(image: str, name: str) -> None:
    assert full_name(image) == name


def test_references_are_stable_and_name_the_content() -> None:
    assert resolve("ubuntu") == resolve("docker.io/library/ubuntu:latest")
    assert resolve("ubuntu:20.04").ref != resolve("ubuntu:22.04").ref
    assert resolve(f"x@{DIGEST}").ref == f"docker.io/library/x@{DIGEST}"


@pytest.mark.parametrize(
    ("image", "command", "args", "line"),
    [
        ("ubuntu", ("a",), ("b",), ("a", "b")),
        ("ubuntu", (), ("b",), ("b",)),
        ("ubuntu:22.04", (), (), ("/bin/bash",)),
        ("busybox", (), (), ("sh",)),
        ("registry.k8s.io/pause:3.10", (), (), PAUSE),
        ("vendor/gpu-burn:1", (), (), PAUSE),
    ],
)
def test_what_an_image_starts(
    image: str, command: tuple[str, ...], args: tuple[str, ...], line: tuple[str, ...]
) -> None:
    assert command_line(image, command, args) == line


@pytest.mark.parametrize(
    ("line", "code", "out"),
    [
        (("true",), 0, ""),
        (("/bin/false",), 1, ""),
        (("exit", "12"), 12, ""),
        (("exit",), 0, ""),
        (("echo", "-n", "a", "b"), 0, "a b"),
        (("/usr/bin/env",), 0, "B=2\nA=1\n"),
        (("printenv", "A", "NONE"), 1, "1\n"),
        (("hostname",), 0, "box\n"),
        (("cat", "/none"), 1, ""),
        (("nvidia-smi", "-q"), 2, ""),
        (("date",), 0, "Tue Nov 14 22:13:20 UTC 2023\n"),
        (("date", "+%s"), 0, "1700000000\n"),
        (("date", "-u"), 2, ""),
        (("ls", "/dev", "/dev/gpu0", "/none"), 2, "/dev:\nfd\ngpu0\n/dev/gpu0\n"),
        (("ls", "-l"), 2, ""),
        (("tail", "x"), 2, ""),
        (("tail", "-f", "/dev/null"), -1, ""),
    ],
)
def test_direct_commands(line: tuple[str, ...], code: int, out: str) -> None:
    env = {"B": "2", "A": "1"} if line[0] != "nvidia-smi" else {"GPU_0_UUID": "x"}
    devices = (VisibleDevice("/dev/gpu0", "c", 240, 0), VisibleDevice("/dev/fd/3", "c", 240, 1))
    ended = run(*line, view=ContainerView(environment=env, hostname="box", devices=devices))
    assert (ended.code, ended.out) == (code, out)


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("0.5", 0.5), (".5s", 0.5), ("2m", 120), ("1.5h", 5400), ("1d", 86400)]
)
def test_durations(text: str, value: float) -> None:
    assert durations.seconds([text]) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "5x", "1 2", "1e3", "٣"])
def test_bad_durations_end_sleep_with_one(text: str) -> None:
    ended = run("sleep", text)
    assert ended.code == 1
    assert ended.err.startswith(f"sleep: invalid time interval ‘{text}’")


def test_sleep_adds_its_durations() -> None:
    assert run("sleep", "1m", "5", advance=[64, 1]).at == 65
    assert run("sleep", "infinity", advance=[1e9]).code == -1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--exit",), "probe: '' is no exit code; use 0 to 255"),
        (("--exit=300",), "probe: '300' is no exit code; use 0 to 255"),
        (("--for", "soon"), "probe: 'soon' is no duration;"),
        (("--what",), "probe: unknown option --what; known: --exit CODE, --for SECONDS"),
    ],
)
def test_wrong_options_of_a_probe_are_named(words: tuple[str, ...], text: str) -> None:
    ended = run("probe", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(text)


def test_an_observation_is_what_the_probe_printed() -> None:
    view = ContainerView(hostname="h", mounts=(VisibleMount("/m", "/src"), VisibleMount("/m", "/over")))
    ended = run("sh", "-c", "echo before; export A=1; probe --exit 0; echo {after}", view=view)
    seen = parse_observation(ended.out)
    assert (seen.hostname, seen.environment["A"]) == ("h", "1")
    mount = seen.mount("/m")
    assert mount is not None
    assert mount.source == "/over"
    assert seen.device("/dev/x") is None


def test_timestamps_do_not_matter_and_the_last_document_counts() -> None:
    first, second = (run("probe", "--exit", "0", env={"N": number}).out for number in "12")
    text = f"2023-11-14T22:13:20Z {first}2023-11-14T22:13:21Z {second}"
    assert parse_observation(text.encode()).environment["N"] == "2"


def test_what_a_container_cannot_know_is_none() -> None:
    document = json.loads(run("probe", "--exit", "0").out) | {"hooks": None, "cdiDevices": None}
    seen = parse_observation(json.dumps(document))
    assert (seen.hooks, seen.cdi_devices) == (None, None)


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ("", "pod/c: its log is empty; the container has not started, or its command is not `probe`"),
        (
            "hello\nworld\n",
            "pod/c: none of the 2 lines of its log is the document of a probe; the first is 'hello'",
        ),
        ('{"kind":"ContainerProbe","schema', "pod/c: the document of its probe is cut or damaged"),
        (
            '{"kind":"ContainerProbe","schemaVersion":9}',
            "pod/c: its probe printed version 9, this kit reads version 1",
        ),
        (
            '{"kind":"ContainerProbe","schemaVersion":1,"hooks":null}',
            "pod/c: the document of its probe is damaged (KeyError",
        ),
    ],
)
def test_logs_without_an_observation_are_explained(log: str, text: str) -> None:
    with pytest.raises(ObservationError) as error:
        parse_observation(log, "pod/c")
    assert str(error.value).startswith(text)
