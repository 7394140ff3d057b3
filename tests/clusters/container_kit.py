"""What the tests of containers share: programs run to their end, and a runtime with a folder."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clusters.clock import Clock
from clusters.containers.model import ContainerConfig, ContainerState, ContainerStatus, SandboxConfig
from clusters.containers.process import Process
from clusters.containers.programs import parse
from clusters.containers.runtime import Runtime
from clusters.containers.view import ContainerView

PATIENCE = 10.0


@dataclass
class Ended:
    """How a program ended, and what it wrote."""

    code: int
    out: str
    err: str
    at: float


class StillClock(Clock):
    """A clock that only `advance` moves."""

    def __init__(self) -> None:
        super().__init__(lambda: 1_700_000_000.0)


async def settle() -> None:
    """Let all tasks run until each waits for something else than a turn."""
    for _ in range(200):
        await asyncio.sleep(0)


async def start(
    line: Sequence[str], view: ContainerView, clock: Clock, rootfs: Path
) -> tuple[asyncio.Task[int], Process, list[str], list[str]]:
    """Begin a program; gives its task, its process, and the lists that its output goes to."""
    out: list[str] = []
    err: list[str] = []
    process = Process(view, clock, out.append, err.append, rootfs)
    task = asyncio.create_task(parse(line, view.environment).run(process))
    await settle()
    return task, process, out, err


def run(
    *line: str,
    env: Mapping[str, str] | None = None,
    view: ContainerView | None = None,
    term: bool = False,
    advance: Sequence[float] = (),
) -> Ended:
    """Run a program; the clock only goes on by the steps of `advance`, after the stop signal if `term`.

    `at` of the result: seconds after the start at which it was seen ended.
    """

    async def go() -> Ended:
        clock = StillClock()
        began = clock.now()
        seen = view or ContainerView(environment=dict(env or {}), hostname="box", arguments=tuple(line))
        rootfs = Path(tempfile.mkdtemp(prefix="rootfs"))
        try:
            task, process, out, err = await start(line, seen, clock, rootfs)
            if term:
                process.term.set()
                await settle()
            for step in advance:
                if task.done():
                    break
                clock.advance(step)
                await settle()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return Ended(-1, "".join(out), "".join(err), clock.now() - began)
            return Ended(task.result(), "".join(out), "".join(err), clock.now() - began)
        finally:
            shutil.rmtree(rootfs)

    return asyncio.run(go())


def sh(script: str, **options: object) -> Ended:
    """Run a script of `sh -c`."""
    return run("sh", "-c", script, **options)  # type: ignore[arg-type]


def bash(script: str, **options: object) -> Ended:
    """Run a script of `bash -c`."""
    return run("bash", "-c", script, **options)  # type: ignore[arg-type]


@dataclass
class Box:
    """A runtime with its folders and a clock that only `advance` moves."""

    runtime: Runtime
    root: Path
    clock: Clock

    @property
    def cdi(self) -> Path:
        """The folder of CDI specs."""
        return self.root / "cdi"

    async def sandbox(self, name: str = "pod", **options: object) -> str:
        """A sandbox of a Pod with logs."""
        logs = str(self.root / "logs" / name)
        config = SandboxConfig(name, "default", f"uid-{name}", 0, name, logs, **options)  # type: ignore[arg-type]
        return await self.runtime.run_pod_sandbox(config)

    async def container(self, sandbox: str, *command: str, name: str = "c", **options: object) -> str:
        """A created container; its log is NAME/0.log."""
        config = ContainerConfig(
            name,
            image="ubuntu:22.04",
            command=command,
            log_path=f"{name}/0.log",
            **options,  # type: ignore[arg-type]
        )
        return await self.runtime.create_container(sandbox, config)

    async def started(self, *command: str, **options: object) -> str:
        """A started container in a sandbox of its own."""
        container = await self.container(await self.sandbox(), *command, **options)
        await self.runtime.start_container(container)
        await settle()
        return container

    async def ended(self, container: str) -> ContainerStatus:
        """The status of a container once it has exited."""
        async with asyncio.timeout(PATIENCE):
            while (
                status := await self.runtime.container_status(container)
            ).state is not ContainerState.EXITED:
                await asyncio.sleep(0.001)
        return status

    async def log(self, container: str) -> list[str]:
        """The texts in the log of a container."""
        path = Path((await self.runtime.container_status(container)).log_path)
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]


@asynccontextmanager
async def box(clock: Clock | None = None, cidr: str = "10.244.3.0/24") -> AsyncIterator[Box]:
    """A runtime in a folder that vanishes."""
    root = Path(tempfile.mkdtemp(prefix="runtime"))
    (root / "cdi").mkdir()
    used = clock or StillClock()
    runtime = Runtime([root / "cdi"], root / "runtime", used, cidr)
    try:
        yield Box(runtime, root, used)
    finally:
        await runtime.close()
        shutil.rmtree(root)
