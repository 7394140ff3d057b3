"""Life of sandboxes and containers in the simulated runtime."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest
from container_kit import PATIENCE, Box, StillClock, box, settle

from clusters.containers.model import (
    ContainerConfig,
    ContainerState,
    RuntimeServiceError,
    SandboxConfig,
    SandboxState,
)

START = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
)


def test_a_container_goes_from_created_to_running_to_exited() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.container(await b.sandbox(), "sleep", "5")
            created = await b.runtime.container_status(container)
            assert (created.state, created.started_at) == (ContainerState.CREATED, None)
            assert (created.image, created.image_ref.partition("@")[0]) == (
                "docker.io/library/ubuntu:22.04",
                "docker.io/library/ubuntu",
            )
            await b.runtime.start_container(container)
            await settle()
            running = await b.runtime.container_status(container)
            assert (running.state, running.started_at) == (ContainerState.RUNNING, b.clock.now())
            b.clock.advance(5)
            ended = await b.ended(container)
            assert (ended.exit_code, ended.reason, ended.finished_at) == (
                0,
                "Completed",
                running.started_at + 5,
            )

    asyncio.run(go())


@pytest.mark.parametrize(
    ("command", "code"), [(("exit", "3"), 3), (("false",), 1), (("probe", "--exit", "7"), 7)]
)
def test_a_failing_container_ends_with_error(command: tuple[str, ...], code: int) -> None:
    async def go() -> None:
        async with box() as b:
            ended = await b.ended(await b.started(*command))
            assert (ended.exit_code, ended.reason, ended.message) == (code, "Error", "")

    asyncio.run(go())


def test_a_probe_for_some_seconds_ends_by_the_clock_with_its_code() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("probe", "--for", "2", "--exit", "4")
            b.clock.advance(1.9)
            await settle()
            assert (await b.runtime.container_status(container)).state is ContainerState.RUNNING
            b.clock.advance(0.2)
            assert (await b.ended(container)).exit_code == 4

    asyncio.run(go())


def test_plain_sleep_is_killed_after_the_grace_period() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sleep", "infinity")
            stop = asyncio.create_task(b.runtime.stop_container(container, 30))
            await settle()
            b.clock.advance(29)
            await settle()
            assert not stop.done()
            b.clock.advance(1)
            await asyncio.wait_for(stop, PATIENCE)
            assert (await b.ended(container)).exit_code == 137

    asyncio.run(go())


@pytest.mark.parametrize(
    "command",
    [("bash", "-c", "trap 'exit 0' TERM; sleep 9999 & wait"), ("probe",), (), ("/pause",)],
)
def test_a_program_that_handles_the_signal_stops_at_once_with_zero(command: tuple[str, ...]) -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.runtime.create_container(
                await b.sandbox(), ContainerConfig("c", image="example.com/app", command=command)
            )
            await b.runtime.start_container(container)
            await settle()
            await asyncio.wait_for(b.runtime.stop_container(container, 30), PATIENCE)
            ended = await b.runtime.container_status(container)
            assert (ended.exit_code, ended.reason, ended.finished_at) == (0, "Completed", b.clock.now())

    asyncio.run(go())


def test_no_grace_period_kills_at_once_even_before_the_first_step() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.container(await b.sandbox(), "probe")
            await b.runtime.start_container(container)
            await b.runtime.stop_container(container, 0)
            assert (await b.runtime.container_status(container)).exit_code == 137

    asyncio.run(go())


def test_a_second_stop_with_less_grace_ends_the_first() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sleep", "9999")
            first = asyncio.create_task(b.runtime.stop_container(container, 600))
            await settle()
            second = asyncio.create_task(b.runtime.stop_container(container, 2))
            await settle()
            b.clock.advance(2)
            await asyncio.wait_for(asyncio.gather(first, second), PATIENCE)
            assert (await b.runtime.container_status(container)).exit_code == 137

    asyncio.run(go())


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("foo", "bar"), 'exec: "foo": executable file not found in $PATH'),
        (("/opt/foo",), 'exec: "/opt/foo": stat /opt/foo: no such file or directory'),
        (("nvidia-smi", "-L"), 'exec: "nvidia-smi": executable file not found in $PATH'),
    ],
)
def test_an_unknown_command_is_a_start_error(command: tuple[str, ...], text: str) -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.container(await b.sandbox(), *command)
            with pytest.raises(RuntimeServiceError) as error:
                await b.runtime.start_container(container)
            assert (error.value.code, error.value.message) == ("Unknown", START + text)
            ended = await b.runtime.container_status(container)
            assert (ended.state, ended.exit_code, ended.reason, ended.message, ended.started_at) == (
                ContainerState.EXITED, 128, "StartError", START + text, None,
            )  # fmt: skip

    asyncio.run(go())


def test_a_container_starts_once() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sleep", "9")
            with pytest.raises(RuntimeServiceError) as error:
                await b.runtime.start_container(container)
            assert error.value.message == (
                f'failed to set starting state for container "{container}": '
                "container is in CONTAINER_RUNNING state"
            )
            assert (await b.runtime.container_status(container)).state is ContainerState.RUNNING

    asyncio.run(go())


def test_a_container_of_a_stopped_sandbox_does_not_start() -> None:
    async def go() -> None:
        async with box() as b:
            sandbox = await b.sandbox()
            container = await b.container(sandbox, "probe")
            await b.runtime.stop_pod_sandbox(sandbox)
            with pytest.raises(RuntimeServiceError, match="is not running"):
                await b.runtime.start_container(container)

    asyncio.run(go())


def test_names_are_reserved_until_they_are_removed() -> None:
    async def go() -> None:
        async with box() as b:
            sandbox = await b.sandbox()
            with pytest.raises(RuntimeServiceError) as again:
                await b.sandbox()
            assert again.value.message == (
                'failed to reserve sandbox name "pod_default_uid-pod_0": '
                f'name "pod_default_uid-pod_0" is reserved for "{sandbox}"'
            )
            container = await b.container(sandbox, "probe")
            with pytest.raises(RuntimeServiceError, match='name "c_pod_default_uid-pod_0" is reserved for'):
                await b.container(sandbox, "probe")
            await b.runtime.remove_container(container)
            await b.container(sandbox, "probe")

    asyncio.run(go())


def test_stopping_a_sandbox_kills_its_containers_and_frees_its_address() -> None:
    async def go() -> None:
        async with box() as b:
            sandbox, other = await b.sandbox("a"), await b.sandbox("b")
            ips = [found.ip for found in await b.runtime.list_pod_sandboxes()]
            # The first address, .1, is the gateway's.
            assert ips == ["10.244.3.2", "10.244.3.3"]
            container = await b.container(sandbox, "sleep", "9")
            await b.runtime.start_container(container)
            await b.runtime.stop_pod_sandbox(sandbox)
            await b.runtime.stop_pod_sandbox(sandbox)
            assert (await b.ended(container)).exit_code == 137
            stopped = await b.runtime.pod_sandbox_status(sandbox)
            assert (stopped.state, stopped.ip) == (SandboxState.NOTREADY, "")
            assert (await b.runtime.pod_sandbox_status(other)).state is SandboxState.READY
            await b.runtime.remove_pod_sandbox(sandbox)
            await b.runtime.remove_pod_sandbox(sandbox)
            assert [found.id for found in await b.runtime.list_pod_sandboxes()] == [other]
            assert await b.runtime.list_containers() == []

    asyncio.run(go())


def test_addresses_go_round_and_run_out() -> None:
    async def go() -> None:
        # A /29 has 8 addresses: network, gateway and broadcast leave 5.
        async with box(cidr="10.244.9.0/29") as b:
            sandboxes = [await b.sandbox(str(number)) for number in range(5)]
            found = [sandbox.ip for sandbox in await b.runtime.list_pod_sandboxes()]
            assert found == [f"10.244.9.{number}" for number in range(2, 7)]
            with pytest.raises(RuntimeServiceError, match=r"range set: 10\.244\.9\.1-10\.244\.9\.6"):
                await b.sandbox("more")
            await b.runtime.remove_pod_sandbox(sandboxes[3])
            assert (await b.runtime.pod_sandbox_status(await b.sandbox("more"))).ip == "10.244.9.5"
            host = await b.runtime.run_pod_sandbox(SandboxConfig("h", "default", "u", host_network=True))
            assert (await b.runtime.pod_sandbox_status(host)).ip == ""

    asyncio.run(go())


def test_what_is_unknown_is_stopped_and_removed_but_not_found() -> None:
    async def go() -> None:
        async with box() as b:
            await b.runtime.stop_container("x", 1)
            await b.runtime.remove_container("x")
            await b.runtime.stop_pod_sandbox("x")
            await b.runtime.remove_pod_sandbox("x")
            calls = [
                b.runtime.container_status("x"),
                b.runtime.start_container("x"),
                b.runtime.pod_sandbox_status("x"),
                b.runtime.create_container("x", ContainerConfig("c")),
            ]
            for call in calls:
                with pytest.raises(RuntimeServiceError) as error:
                    await call
                assert error.value.code == "NotFound"

    asyncio.run(go())


def test_a_running_container_is_killed_when_it_is_removed() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sh", "-c", "while true; do sleep 1; echo alive >>/tmp/f; done")
            b.clock.advance(1)
            await settle()
            assert list((b.root / "runtime").rglob("f"))
            await b.runtime.remove_container(container)
            await settle()
            assert await b.runtime.list_containers() == []
            assert not list((b.root / "runtime").rglob("f"))
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())


def test_changes_name_the_sandbox_of_each_change() -> None:
    async def go() -> None:
        async with box() as b:
            changes = b.runtime.changes()
            sandbox = await b.sandbox()
            assert await anext(changes) == sandbox
            container = await b.container(sandbox, "sleep", "5")
            await b.runtime.start_container(container)
            await settle()
            # Two changes that nobody has read yet are told once.
            assert await anext(changes) == sandbox
            waiting = asyncio.create_task(anext(changes))
            await settle()
            assert not waiting.done()
            b.clock.advance(5)
            assert await asyncio.wait_for(waiting, PATIENCE) == sandbox
            await b.runtime.close()
            assert [found async for found in changes] == []

    asyncio.run(go())


def test_a_reader_of_changes_may_be_cancelled_and_another_goes_on() -> None:
    async def go() -> None:
        async with box() as b:
            first = asyncio.create_task(anext(b.runtime.changes()))
            await settle()
            first.cancel()
            second = b.runtime.changes()
            assert await b.sandbox() == await anext(second)

    asyncio.run(go())


def test_a_callers_cancellation_leaves_no_container_half_stopped() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sleep", "9999")
            stop = asyncio.create_task(b.runtime.stop_container(container, 30))
            await settle()
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)
            b.clock.advance(60)
            await settle()
            # The caller is gone, and nobody sends the second signal until the next stop.
            assert (await b.runtime.container_status(container)).state is ContainerState.RUNNING
            await b.runtime.stop_container(container, 0)
            assert (await b.runtime.container_status(container)).exit_code == 137

    asyncio.run(go())


def test_a_command_runs_beside_the_program() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started(
                "sh", "-c", "trap 'echo told; exit 0' TERM; sleep 99 & wait", envs=(("A", "1"),)
            )
            result = await b.runtime.exec_sync(
                container, ["sh", "-c", "echo $A; echo e >&2; echo f >/tmp/f; exit 3"]
            )
            assert (result.exit_code, result.stdout, result.stderr) == (3, "1\n", "e\n")
            assert (await b.runtime.exec_sync(container, ["cat", "/tmp/f"])).stdout == "f\n"
            with pytest.raises(RuntimeServiceError) as unknown:
                await b.runtime.exec_sync(container, ["foo"])
            assert re.fullmatch(
                'failed to exec in container: failed to start exec "[0-9a-f]{64}": OCI runtime exec failed: '
                r'exec failed: unable to start container process: exec: "foo": executable file not found in \$PATH',
                unknown.value.message,
            )
            await b.runtime.exec_sync(container, ["sh", "-c", "kill 1"])
            assert (await b.ended(container)).exit_code == 0
            assert await b.log(container) == ["told"]
            with pytest.raises(RuntimeServiceError, match="container is in CONTAINER_EXITED state"):
                await b.runtime.exec_sync(container, ["true"])

    asyncio.run(go())


def test_a_command_ends_with_its_time_or_with_the_container() -> None:
    async def go() -> None:
        async with box() as b:
            container = await b.started("sleep", "99")
            late = asyncio.create_task(b.runtime.exec_sync(container, ["sleep", "99"], 2))
            other = asyncio.create_task(b.runtime.exec_sync(container, ["sleep", "99"]))
            await settle()
            b.clock.advance(2)
            with pytest.raises(RuntimeServiceError) as error:
                await asyncio.wait_for(late, PATIENCE)
            assert (error.value.code, error.value.message) == (
                "DeadlineExceeded",
                "failed to exec in container: timeout 2s exceeded: context deadline exceeded",
            )
            await b.runtime.stop_container(container, 0)
            assert (await asyncio.wait_for(other, PATIENCE)).exit_code == 137

    asyncio.run(go())


def test_a_simulated_program_that_breaks_says_so_in_the_log() -> None:
    async def go() -> None:
        async with box() as b:
            # More nesting than the parser can follow.
            container = await b.started("sh", "-c", "(" * 5000)
            ended = await b.ended(container)
            assert (ended.exit_code, ended.reason) == (255, "Error")
            assert (await b.log(container))[0].startswith("the simulated program failed: RecursionError")

    asyncio.run(go())


def test_closing_ends_all_programs() -> None:
    async def go() -> None:
        async with box() as b:
            await b.started("sh", "-c", "sleep 5 & sleep 6 & wait")
            before = len(asyncio.all_tasks())
            assert before > 1
            await b.runtime.close()
            await settle()
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())


@pytest.mark.parametrize("seed", range(8))
def test_callers_cancelled_at_any_point_leave_a_consistent_runtime(seed: int) -> None:
    choose = random.Random(seed)

    async def caller(b: Box, number: int) -> None:
        sandbox = await b.sandbox(f"p{number}")
        container = await b.container(sandbox, *choose.choice(
            [("sleep", "3"), ("sh", "-c", "trap 'exit 0' TERM; sleep 99 & wait"), ("probe",), ("foo",)]
        ))  # fmt: skip
        await b.runtime.start_container(container)
        await b.clock.sleep(choose.random())
        await b.runtime.stop_container(container, choose.choice([0, 1, 2]))
        await b.runtime.remove_pod_sandbox(sandbox)

    async def go() -> None:
        async with box(StillClock()) as b:
            callers = [asyncio.create_task(caller(b, number)) for number in range(20)]
            for _ in range(60):
                for _ in range(choose.randrange(6)):
                    await asyncio.sleep(0)
                if choose.random() < 0.3:
                    choose.choice(callers).cancel()
                b.clock.advance(0.1)
            await asyncio.gather(*(call for call in callers if call.cancel() or True), return_exceptions=True)
            await settle()
            sandboxes = {sandbox.id for sandbox in await b.runtime.list_pod_sandboxes()}
            for status in await b.runtime.list_containers():
                assert status.sandbox_id in sandboxes, f"seed {seed}: a container without its sandbox"
                assert (status.finished_at is None) == (status.state is not ContainerState.EXITED)
            for sandbox in list(sandboxes):
                await b.runtime.remove_pod_sandbox(sandbox)
            assert await b.runtime.list_containers() == []
            await settle()
            assert len(asyncio.all_tasks()) == 1, f"seed {seed}: {asyncio.all_tasks()}"
            assert not [path for path in Path(b.root, "runtime").rglob("*") if path.is_file()]

    asyncio.run(go())
