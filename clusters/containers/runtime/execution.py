"""Commands run in a container beside its program: probes and hooks of Pods."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from clusters.containers.model import ExecResult, RuntimeServiceError
from clusters.containers.process import Process, StartError, happens_within, outcome
from clusters.containers.programs import parse
from clusters.containers.startability import exec_problem


def exec_error(code: str, text: str) -> RuntimeServiceError:
    """An error of ExecSync."""
    return RuntimeServiceError(code, f"failed to exec in container: {text}")


async def run_exec(
    init: Process, stopped: asyncio.Event, command: Sequence[str], timeout: float
) -> ExecResult:
    """Run a command beside process 1, at most until the container stops.

    Args:
        init: process 1 of the container.
        stopped: set when the container has ended; the command is killed with it.
        command: the command with its arguments.
        timeout: seconds of the clock after which the command is killed; 0: never.

    Raises:
        RuntimeServiceError: no such command (Unknown), or the time is over (DeadlineExceeded).
    """
    out: list[str] = []
    err: list[str] = []
    process = init.joined(out.append, err.append)
    try:
        program = parse(command, init.view.environment)
    except StartError as problem:
        raise exec_error("Unknown", exec_problem(secrets.token_hex(32), str(problem))) from problem
    task = asyncio.create_task(program.run(process), name="exec in a container")
    ends = asyncio.ensure_future(_ended(init, stopped, timeout))
    try:
        await asyncio.wait((task, ends), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            if not stopped.is_set():
                raise exec_error(
                    "DeadlineExceeded", f"timeout {timeout:g}s exceeded: context deadline exceeded"
                )
    finally:
        task.cancel()
        ends.cancel()
    code, said = outcome(task)
    return ExecResult(code, "".join(out), "".join(err) + said)


async def _ended(init: Process, stopped: asyncio.Event, timeout: float) -> None:
    if timeout > 0:
        await happens_within(init.clock, stopped, timeout)
    else:
        await stopped.wait()
