"""What containers see of CDI devices, devices, mounts and limits."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from container_kit import Box, box

from clusters.containers.model import (
    ContainerState,
    Device,
    LinuxResources,
    Mount,
    RuntimeServiceError,
)
from clusters.observation import Observation, ObservedDevice, parse_observation

START = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
INIT = START + "unable to start container process: error during container init: "


def write_spec(b: Box, *devices: dict[str, Any], name: str = "a.json", **spec: Any) -> None:
    """A CDI file of kind acme.com/gpu; a device is its name and its edits."""
    document = {
        "cdiVersion": "0.7.0",
        "kind": "acme.com/gpu",
        "devices": [{"name": device.pop("name"), "containerEdits": device} for device in devices],
        **spec,
    }
    (b.cdi / name).write_text(json.dumps(document))


async def observe(b: Box, *ids: str, **options: Any) -> Observation:
    """What a probe in a container with these CDI ids sees."""
    container = await b.started("probe", cdi_devices=ids, **options)
    path = Path((await b.runtime.container_status(container)).log_path)
    # The document is longer than a log line may be only in other tests.
    return parse_observation("".join(line.split(" ", 3)[3] for line in path.read_text().splitlines(True)))


async def refused(b: Box, *ids: str, **options: Any) -> str:
    """The message of a refused container."""
    with pytest.raises(RuntimeServiceError) as error:
        await b.container(await b.sandbox(), "probe", cdi_devices=ids, **options)
    assert await b.runtime.list_containers() == []
    return error.value.message


def test_edits_reach_the_container(tmp_path: Path) -> None:
    node = tmp_path / "fakegpu3"
    node.write_text("c 240:3\n")
    node.chmod(0o600)

    async def go() -> None:
        async with box() as b:
            write_spec(
                b,
                {
                    "name": "g3",
                    "env": ["GPU=3", "MODE=cdi"],
                    "deviceNodes": [
                        {"path": "/dev/fakegpu3", "hostPath": str(node), "permissions": "rw"},
                        {"path": "/dev/ctl", "type": "c", "major": 9, "minor": 1, "fileMode": 384, "gid": 44},
                    ],
                    "mounts": [
                        {"hostPath": str(tmp_path), "containerPath": "/opt/gpu", "options": ["ro", "rbind"]}
                    ],
                    "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["true", "x"]}],
                    "additionalGids": [44],
                },
                containerEdits={"env": ["COMMON=1"]},
            )
            seen = await observe(b, "acme.com/gpu=g3", envs=(("MODE", "pod"), ("OWN", "1")))
            assert {name: seen.environment[name] for name in ("GPU", "MODE", "COMMON", "OWN")} == {
                "GPU": "3", "MODE": "cdi", "COMMON": "1", "OWN": "1",
            }  # fmt: skip
            # 438 = 0666 stands for a recorded node, 384 = 0600 is the spec's; runc's default owner is 0:0.
            assert seen.devices == (
                ObservedDevice("/dev/fakegpu3", "c", 240, 3, 438, 0, 0, "rw"),
                ObservedDevice("/dev/ctl", "c", 9, 1, 384, 0, 44, "rwm"),
            )
            mount = seen.mount("/opt/gpu")
            assert mount is not None
            assert (mount.source, mount.options) == (str(tmp_path), ("ro", "rbind"))
            assert seen.hooks is not None
            assert [(hook.stage, hook.path, hook.args) for hook in seen.hooks] == [
                ("createContainer", "/bin/true", ("true", "x"))
            ]
            assert (seen.groups, seen.cdi_devices) == ((0, 44), ("acme.com/gpu=g3",))

    asyncio.run(go())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_real_device_nodes_are_read_from_the_host(tmp_path: Path) -> None:
    node = tmp_path / "gpu"
    try:
        os.mknod(node, 0o020640, os.makedev(240, 5))
    except PermissionError:
        pytest.skip("this container may not make device nodes")

    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "g", "deviceNodes": [{"path": "/dev/gpu", "hostPath": str(node)}]})
            seen = await observe(b, "acme.com/gpu=g")
            # Case I1 of spec/cdi.md: numbers and mode (0640 = 416) of the host, owner and permissions by default.
            mode = node.stat().st_mode & 0o777
            assert seen.device("/dev/gpu") == ObservedDevice("/dev/gpu", "c", 240, 5, mode, 0, 0, "rwm")

    asyncio.run(go())


def test_unresolvable_ids_are_refused_in_containerds_words() -> None:
    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "g", "env": ["A=1"]})
            text = await refused(b, "acme.com/gpu=g", "acme.com/gpu=x", "a/b=c")
            assert text == (
                "failed to create containerd container: CDI device injection failed: "
                "unresolvable CDI devices acme.com/gpu=x, a/b=c"
            )

    asyncio.run(go())


def test_an_id_becomes_resolvable_when_its_file_appears() -> None:
    async def go() -> None:
        async with box() as b:
            await refused(b, "acme.com/gpu=g")
            write_spec(b, {"name": "g", "env": ["A=1"]})
            sandbox = (await b.runtime.list_pod_sandboxes())[0].id
            await b.container(sandbox, "probe", cdi_devices=("acme.com/gpu=g",))

    asyncio.run(go())


def test_a_missing_host_device_is_refused() -> None:
    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "g", "deviceNodes": [{"path": "/dev/none"}]})
            assert await refused(b, "acme.com/gpu=g") == (
                "failed to create containerd container: CDI device injection failed: failed to inject devices: "
                'failed to stat CDI host device "/dev/none": no such file or directory'
            )

    asyncio.run(go())


def test_annotations_add_ids_after_those_of_the_field() -> None:
    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "a", "env": ["V=a"]}, {"name": "b", "env": ["V=b"]})
            seen = await observe(
                b,
                "acme.com/gpu=a",
                annotations={"cdi.k8s.io/x": "acme.com/gpu=b,acme.com/gpu=a", "other": "z"},
            )
            assert seen.cdi_devices == ("acme.com/gpu=a", "acme.com/gpu=b")
            assert seen.environment["V"] == "b"

    asyncio.run(go())


@pytest.mark.parametrize("text", ["", "gpu0", "acme.com/gpu=b, acme.com/gpu=a"])
def test_annotations_that_are_no_ids_are_refused(text: str) -> None:
    async def go() -> None:
        async with box() as b:
            message = await refused(b, annotations={"cdi.k8s.io/x": text})
            assert message.startswith(
                "failed to create containerd container: failed to parse CDI device annotations: invalid CDI device name"
            )

    asyncio.run(go())


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        (
            {"mounts": [{"hostPath": "/nowhere/x", "containerPath": "/x", "options": ["bind"]}]},
            INIT + "failed to fulfil mount request: open /nowhere/x: no such file or directory",
        ),
        (
            {"hooks": [{"hookName": "prestart", "path": "/nowhere/h"}]},
            INIT + "error running prestart hook #0: fork/exec /nowhere/h: no such file or directory",
        ),
        (
            {"deviceNodes": [{"path": "/dev/x", "type": "c", "major": 9, "permissions": "none"}]},
            START + "device access at 1 field cannot be empty",
        ),
        (
            {"mounts": [{"hostPath": "/tmp", "containerPath": "/x"}]},
            INIT + 'error mounting "/tmp" to rootfs at "/x": mount src=/tmp, dst=/x: no such device',
        ),
    ],
)
def test_what_only_the_oci_runtime_finds_is_a_start_error(edits: dict[str, Any], text: str) -> None:
    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "g", **edits})
            container = await b.container(await b.sandbox(), "probe", cdi_devices=("acme.com/gpu=g",))
            with pytest.raises(RuntimeServiceError) as error:
                await b.runtime.start_container(container)
            assert error.value.message == text
            status = await b.runtime.container_status(container)
            assert (status.state, status.exit_code, status.reason) == (
                ContainerState.EXITED,
                128,
                "StartError",
            )

    asyncio.run(go())


def test_poststop_hooks_do_not_matter_at_the_start() -> None:
    async def go() -> None:
        async with box() as b:
            write_spec(b, {"name": "g", "hooks": [{"hookName": "poststop", "path": "/nowhere/h"}]})
            assert (await observe(b, "acme.com/gpu=g")).hooks is not None

    asyncio.run(go())


def test_mounts_and_devices_of_the_pod(tmp_path: Path) -> None:
    (tmp_path / "node").write_text("c 10:229\n")

    async def go() -> None:
        async with box() as b:
            seen = await observe(
                b,
                mounts=(Mount("/data", str(tmp_path / "made"), readonly=True),),
                devices=(Device("/dev/x", str(tmp_path / "node"), "r"),),
                resources=LinuxResources(memory_limit_in_bytes=64 << 20, cpu_quota=50000, cpu_period=100000,
                                         hugepage_limits={"2MB": 4 << 20}),
                run_as_user=1000, run_as_group=2000, supplemental_groups=(7,), working_dir="/data",
            )  # fmt: skip
            # containerd makes the missing source of a Pod's mount.
            assert (tmp_path / "made").is_dir()
            mount = seen.mount("/data")
            assert mount is not None
            assert (mount.source, mount.options) == (str(tmp_path / "made"), ("rbind", "rprivate", "ro"))
            device = seen.device("/dev/x")
            assert device is not None
            assert (device.major, device.minor, device.access) == (10, 229, "r")
            # 64 MiB and 4 MiB in bytes.
            assert seen.limits == {
                "memory": 67108864, "cpuQuota": 50000, "cpuPeriod": 100000, "hugepages-2MB": 4194304,
            }  # fmt: skip
            assert seen.document["user"] == {"uid": 1000, "gid": 2000, "groups": [2000, 7]}
            assert (seen.hostname, seen.environment["HOSTNAME"], seen.environment["HOME"]) == (
                "pod",
                "pod",
                "/",
            )

    asyncio.run(go())


def test_a_missing_device_of_the_pod_is_refused() -> None:
    async def go() -> None:
        async with box() as b:
            text = await refused(b, devices=(Device("/dev/x", "/dev/none"),))
            assert text.endswith("spec: failed to generate spec: lstat /dev/none: no such file or directory")

    asyncio.run(go())
