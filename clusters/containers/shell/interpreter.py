"""Scripts of containers: a small shell on the cluster's clock.

It runs what `clusters.containers.shell.grammar` knows, with the messages of dash (for `sh`) or bash. Nothing is a
real process: children are tasks that end with the shell. As process 1 the shell ignores SIGTERM unless a trap is
set; a trap runs after the command in the foreground, or at once during `wait`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusters.containers.commands import Call, find
from clusters.containers.process import Process
from clusters.containers.shell import builtins, patterns
from clusters.containers.shell import streams as redirections
from clusters.containers.shell.grammar import (
    AndOr,
    Command,
    CommandList,
    For,
    Group,
    If,
    Loop,
    Not,
    Redirect,
    Simple,
    parse,
)
from clusters.containers.shell.options import NOT_FOUND, SHELLS, USAGE_ERROR, read_options
from clusters.containers.shell.state import ExitShell, LoopControl, Shell, ShellError
from clusters.containers.shell.streams import Streams
from clusters.containers.shell.words import ShellSyntaxError, Word, expand, expand_joined


class ShellProgram:
    """A shell as process 1."""

    def __init__(self, line: tuple[str, ...]) -> None:
        self._line = line

    async def run(self, process: Process) -> int:
        """Run the script of `-c`; without one there is nothing on standard input, and the shell ends at once."""
        return await run_shell(
            self._line,
            process,
            process.view.environment,
            Streams(process.stdout, process.stderr),
            process.term,
        )


async def run_shell(
    line: Sequence[str],
    process: Process,
    environment: Mapping[str, str],
    streams: Streams,
    term: asyncio.Event,
) -> int:
    """Run a shell with its arguments to the end and return its status. Children end with it."""
    dialect = SHELLS[line[0].rpartition("/")[2]]
    shell = Shell(process, line[0], dialect, term, dict(environment))
    try:
        script = read_options(shell, line[1:])
        if script is None:
            return 0
        return await _Interpreter(shell).script(script, streams)
    except ShellError as problem:
        streams.stderr(problem.text)
        return problem.status
    finally:
        await shell.end_jobs()


@dataclass
class _Interpreter:
    """Runs the structure of a script on a shell's state."""

    shell: Shell
    # Inside a condition a failure does not end a shell that runs with -e.
    tested: int = field(default=0)

    async def script(self, text: str, streams: Streams) -> int:
        """Run a whole script; the status is that of the shell."""
        shell = self.shell
        try:
            try:
                await self.text(text, streams)
            except ExitShell as end:
                shell.status = end.status
            except LoopControl:
                shell.status = 0
            except ShellError as problem:
                streams.stderr(problem.text)
                shell.status = problem.status
            action = shell.traps.pop("EXIT", "")
            if action:
                status = shell.status
                await self.text(action, streams)
                shell.status = status
        except ExitShell as end:
            shell.status = end.status
        return shell.status

    async def text(self, text: str, streams: Streams) -> None:
        """Parse and run a text in this shell."""
        try:
            commands = parse(text)
        except ShellSyntaxError as problem:
            raise self._syntax_error(problem) from problem
        await self.commands(commands, streams)

    def _syntax_error(self, problem: ShellSyntaxError) -> ShellError:
        shell = self.shell
        if not problem.known:
            return ShellError(
                f"{shell.name}: {problem.line}: the shell of simulated containers does not know {problem.text}; "
                "docs/cluster.md tells what it knows\n",
                USAGE_ERROR,
            )
        if shell.bash:
            return ShellError(
                f"{shell.name}: -c: line {problem.line}: syntax error: {problem.text}\n", USAGE_ERROR
            )
        return ShellError(f"{shell.name}: {problem.line}: Syntax error: {problem.text}\n", USAGE_ERROR)

    async def commands(self, commands: CommandList, streams: Streams) -> None:
        """Run commands one after another; traps run between them."""
        for item in commands.items:
            if item.background:
                self._start_job(item, streams)
            else:
                await self._and_or(item, streams)
            await self.pending_trap(streams)

    async def pending_trap(self, streams: Streams) -> bool:
        """Run the action for a SIGTERM that has come; True when there was one."""
        shell = self.shell
        if not shell.term.is_set() or "TERM" not in shell.traps:
            return False
        shell.term.clear()
        status = shell.status
        await self.text(shell.traps["TERM"], streams)
        shell.status = status
        return True

    def _start_job(self, item: AndOr, streams: Streams) -> None:
        child = self.shell.child()
        job = _Interpreter(child)

        async def run() -> int:
            try:
                return await job.job(AndOr(item.first, item.rest), streams)
            finally:
                await child.end_jobs()

        self.shell.add_job(asyncio.create_task(run()))

    async def job(self, item: AndOr, streams: Streams) -> int:
        """Run an item as a child of its own; the status is that of the child."""
        try:
            await self._and_or(item, streams)
        except ExitShell as end:
            return end.status
        except LoopControl:
            return 0
        except ShellError as problem:
            streams.stderr(problem.text)
            return problem.status
        return self.shell.status

    async def _and_or(self, item: AndOr, streams: Streams) -> None:
        links = [("", item.first), *item.rest]
        for index, (operator, command) in enumerate(links):
            failed = self.shell.status != 0
            if (operator == "&&" and failed) or (operator == "||" and not failed):
                continue
            last = index == len(links) - 1
            self.tested += not last
            try:
                await self._command(command, streams)
            finally:
                self.tested -= not last
            fatal = self.shell.errexit and not self.tested and not isinstance(command, Not)
            if last and fatal and self.shell.status:
                raise ExitShell(self.shell.status)

    async def _command(self, command: Command, streams: Streams) -> None:
        # A loop of builtins must not keep the other tasks from running.
        await asyncio.sleep(0)
        match command:
            case Simple():
                await self._simple(command, streams)
            case Group():
                await self._group(command, streams)
            case If():
                await self._if(command, streams)
            case Loop():
                await self._loop(command, streams)
            case For():
                await self._for(command, streams)
            case Not():
                self.tested += 1
                try:
                    await self._command(command.command, streams)
                finally:
                    self.tested -= 1
                self.shell.status = int(self.shell.status == 0)

    async def _group(self, group: Group, streams: Streams) -> None:
        inner = self._redirected(group.redirects, streams)
        if inner is None:
            return
        if not group.subshell:
            await self.commands(group.body, inner)
            return
        child = self.shell.child()
        interpreter = _Interpreter(child, self.tested)
        try:
            await interpreter.commands(group.body, inner)
            self.shell.status = child.status
        except ExitShell as end:
            self.shell.status = end.status
        finally:
            await child.end_jobs()

    async def _condition(self, commands: CommandList, streams: Streams) -> bool:
        self.tested += 1
        try:
            await self.commands(commands, streams)
        finally:
            self.tested -= 1
        return self.shell.status == 0

    async def _if(self, command: If, streams: Streams) -> None:
        for condition, body in command.branches:
            if await self._condition(condition, streams):
                await self.commands(body, streams)
                return
        if command.otherwise is not None:
            await self.commands(command.otherwise, streams)
        else:
            self.shell.status = 0

    async def _loop(self, loop: Loop, streams: Streams) -> None:
        status = 0
        while await self._condition(loop.condition, streams) != loop.negated:
            if not await self._round(loop.body, streams):
                status = self.shell.status
                break
            status = self.shell.status
        self.shell.status = status

    async def _for(self, loop: For, streams: Streams) -> None:
        values = self.fields(loop.words)
        self.shell.status = 0
        for value in values:
            self.shell.variables[loop.name] = value
            if not await self._round(loop.body, streams):
                break

    async def _round(self, body: CommandList, streams: Streams) -> bool:
        """One round of a loop; False ends the loop."""
        self.shell.loops += 1
        try:
            await self.commands(body, streams)
        except LoopControl as control:
            self.shell.status = 0
            if control.levels > 1:
                raise LoopControl(control.levels - 1, leave=control.leave) from None
            return not control.leave
        finally:
            self.shell.loops -= 1
        return True

    def fields(self, words: Sequence[Word]) -> list[str]:
        """Words expanded to fields."""
        return [text for word in words for text in expand(word, self.shell.value, self._paths)]

    def _paths(self, pattern: str) -> list[str]:
        return patterns.paths(pattern, self.shell.folder, self.shell.process.names)

    def _redirected(self, redirects: Sequence[Redirect], streams: Streams) -> Streams | None:
        """The streams of a command, or None when a redirection failed (reported, status set)."""
        resolved = [
            (redirect.fd, redirect.kind, expand_joined(redirect.target, self.shell.value))
            for redirect in redirects
        ]
        try:
            return redirections.redirect(self.shell, resolved, streams)
        except redirections.RedirectError as problem:
            streams.stderr(problem.text)
            self.shell.status = 1 if self.shell.bash else 2
            return None

    async def _simple(self, command: Simple, streams: Streams) -> None:
        shell = self.shell
        shell.line = command.line
        words = self.fields(command.words)
        assigned: dict[str, str] = {}

        def value(asked: str) -> str | None:
            # Later values see earlier ones.
            return assigned[asked] if asked in assigned else shell.value(asked)

        for name, word in command.assignments:
            assigned[name] = expand_joined(word, value)
        inner = self._redirected(command.redirects, streams)
        if inner is None:
            return
        if not words:
            shell.variables.update(assigned)
            shell.status = 0
            return
        try:
            await self._run(words, assigned, inner)
        except OSError as problem:
            # What a redirection writes to can vanish or be full.
            cause = (problem.strerror or str(problem)) if shell.bash else "I/O error"
            streams.stderr(f"{shell.name}: {'' if shell.bash else f'{shell.line}: '}{words[0]}: {cause}\n")
            shell.status = 1

    async def _run(self, words: list[str], assigned: Mapping[str, str], inner: Streams) -> None:
        """Run a command of at least one word."""
        shell = self.shell
        builtin = builtins.BUILTINS.get(words[0])
        if words[0] in ("eval", "exec", "wait"):
            await self._control(words, assigned, inner)
        elif builtin is not None:
            shell.variables.update(assigned)
            shell.status = builtin(shell, words[1:], inner)
        else:
            shell.status = await self._external(words, assigned, inner, asyncio.Event())

    async def _control(self, words: list[str], assigned: Mapping[str, str], streams: Streams) -> None:
        """Commands that run others or wait for them."""
        shell = self.shell
        shell.variables.update(assigned)
        if words[0] == "eval":
            shell.status = 0
            await self.text(" ".join(words[1:]), streams)
        elif words[0] == "wait":
            shell.status = await self._wait(words[1:], streams)
        elif len(words) > 1:
            # The command takes the place of the shell: no trap is left, and its end is that of the process.
            shell.traps.clear()
            raise ExitShell(await self._external(words[1:], {}, streams, shell.term))

    async def _wait(self, words: list[str], streams: Streams) -> int:
        shell = self.shell
        jobs = list(shell.jobs.values())
        if words:
            wanted = [shell.jobs.get(int(word)) if word.isdecimal() else None for word in words]
            if None in wanted:
                return NOT_FOUND
            jobs = [job for job in wanted if job is not None]
        while pending := [job for job in jobs if not job.done()]:
            watched: set[asyncio.Future[object]] = set(pending)  # type: ignore[arg-type]
            signal = asyncio.ensure_future(shell.term.wait()) if "TERM" in shell.traps else None
            if signal is not None:
                watched.add(signal)  # type: ignore[arg-type]
            try:
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if signal is not None:
                    signal.cancel()
            if shell.term.is_set() and shell.traps.get("TERM"):
                await self.pending_trap(streams)
                return builtins.SIGNALLED + builtins.SIGTERM
            if shell.term.is_set() and "TERM" in shell.traps:
                # Ignored by `trap '' TERM`: forget it, or this loop would spin.
                shell.term.clear()
        if not words:
            shell.jobs.clear()
            return 0
        return builtins.job_status(jobs[-1])

    async def _external(
        self, words: Sequence[str], assigned: Mapping[str, str], streams: Streams, term: asyncio.Event
    ) -> int:
        shell = self.shell
        environment = shell.environment() | dict(assigned)
        name = words[0]
        folder, _, base = name.rpartition("/")
        if base in SHELLS and folder in builtins.FOLDERS:
            return await run_shell(words, shell.process, environment, streams, term)
        command = find(name, environment)
        if command is None:
            streams.stderr(shell.not_found(name))
            return NOT_FOUND
        call = Call(
            shell.process, tuple(words), environment, streams.stdout, streams.stderr, term, streams.stdin
        )
        return await command(call)
