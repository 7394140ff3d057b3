"""drakit inside a vendor's pytest: an item for each requirement, judged by one run of the command in its own process.

    # conftest.py
    pytest_plugins = ["pytest_drakit"]

    # test_conformance.py
    from pytest_drakit import test_requirement

    pytest --drakit-driver=DRIVER.yaml

Nothing of drakit is imported here: the command may live in another environment. docs/pytest.md tells more.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["DrakitRun", "test_requirement"]

_PARAMETER: Final = "drakit_requirement"
_LAST_LINES: Final = 30
_STOP_SECONDS: Final = 60.0
_REPORT: Final = "report.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, each with an entry of the ini file; all begin with drakit, so that they meet no other plugin's."""
    group = parser.getgroup("drakit", "conformance of DRA drivers")
    for name, meaning, metavar in (
        ("driver", "descriptor of the driver that is judged", "DRIVER.yaml"),
        ("tier", "kind of cluster: embedded, local or kind", "TIER"),
        ("kubeconfig", "judge on this cluster instead", "FILE"),
        ("report", "folder for report.json and junit.xml", "DIR"),
        ("command", "the command drakit, when it is in another environment", "COMMAND"),
        ("arguments", "more words for drakit conformance", "WORDS"),
    ):
        group.addoption(f"--drakit-{name}", default=None, metavar=metavar, help=meaning)
        parser.addini(f"drakit_{name}", f"{meaning} (as --drakit-{name})", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The hooks and fixtures are in an object: this module is collected, too, and must not have them twice."""
    config.pluginmanager.register(_Plugin(config), "drakit-run")


@dataclass
class DrakitRun:
    """A finished run of the command: its results by the id of their requirement, or the problem that prevented it."""

    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""
    told: bool = False

    def judge(self, requirement: str) -> None:
        """End the test as the requirement did: pass, skip, xfail (a known gap, a SHOULD or MAY) or failure."""
        if self.problem:
            if self.told:
                pytest.skip("drakit could not judge; the first requirement says why")
            self.told = True
            pytest.fail(self.problem, pytrace=False)
        result = self.results.get(requirement)
        if result is None:
            pytest.skip("not part of the run")
        verdict, level = result["verdict"], result["level"]
        if verdict in ("skip", "disabled"):
            pytest.skip(result.get("reason") or verdict)
        if verdict == "known-gap":
            pytest.xfail(f"known gap: {result.get('reason', '')}")
        if verdict == "fail" and level != "MUST":
            pytest.xfail(f"{level}: expected {result['expected']}; seen {result['seen']}")
        if verdict in ("fail", "error"):
            pytest.fail(failure_text(result), pytrace=False)


def failure_text(result: Mapping[str, Any]) -> str:
    """What is known about a failure, and the command that shows it again."""
    head = "could not be judged" if result["verdict"] == "error" else "does not hold"
    lines = [
        f"{result['id']} ({result['level']}, {result['subject']}) {head}: {result['rule']}",
        f"expected:  {result['expected']}",
        f"seen:      {result['seen']}",
        f"reproduce: {result['reproduce']}",
    ]
    for item in result.get("evidence") or []:
        lines += ["", f"--- {item['kind']}: {item['title']}", item["text"]]
    return "\n".join(lines)


def test_requirement(
    drakit_run: DrakitRun, drakit_requirement: Mapping[str, Any], record_property: Any
) -> None:
    """A requirement of the catalogue holds for the driver."""
    for name in ("level", "area", "rule"):
        record_property(name, drakit_requirement[name])
    drakit_run.judge(drakit_requirement["id"])


class _Plugin:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._catalogue: list[dict[str, Any]] | None = None

    def _setting(self, name: str) -> str:
        """From the command line, else from the ini file."""
        given = self._config.getoption(f"drakit_{name}")
        return str(given if given is not None else self._config.getini(f"drakit_{name}"))

    def _path(self, name: str) -> Path | None:
        """A path of the ini file is meant from its folder, one of the command line from where pytest runs."""
        given = self._config.getoption(f"drakit_{name}")
        base = self._config.rootpath if given is None else self._config.invocation_params.dir
        text = self._setting(name)
        return base / text if text else None

    def _command(self) -> list[str]:
        if given := self._setting("command"):
            return shlex.split(given)
        here = importlib.util.find_spec("drakit") is not None
        return [sys.executable, "-m", "drakit"] if here else ["drakit"]

    def pytest_report_header(self) -> str | None:
        """Which driver is judged, and where."""
        driver = self._setting("driver")
        where = self._setting("kubeconfig") or self._setting("tier") or "embedded"
        return f"drakit: {driver} on {where}" if driver else None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """A test for each requirement of the catalogue."""
        if _PARAMETER in metafunc.fixturenames:
            rows = self._requirements()
            metafunc.parametrize(_PARAMETER, rows, ids=[row["id"] for row in rows])

    def _requirements(self) -> list[dict[str, Any]]:
        if not self._setting("driver"):
            raise pytest.UsageError(
                "drakit judges no driver yet: give --drakit-driver=DRIVER.yaml, or drakit_driver in the ini file"
            )
        if self._catalogue is None:
            command = [*self._command(), "conformance", "--list", "--json"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's
            except OSError as error:
                raise pytest.UsageError(f"{command[0]} cannot be run: {error.strerror}") from None
            if done.returncode != 0:
                raise pytest.UsageError(f"{shlex.join(command)}: {done.stderr.strip()}")
            self._catalogue = json.loads(done.stdout)
        return self._catalogue

    @pytest.fixture(scope="session")
    def drakit_kubeconfig(self) -> Path | None:
        """The cluster to judge on; a project overrides it to give the one of another fixture."""
        return self._path("kubeconfig")

    @pytest.fixture(scope="session")
    def drakit_run(
        self,
        request: pytest.FixtureRequest,
        drakit_kubeconfig: Path | None,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[DrakitRun]:
        """The run of the command, which judges the requirements of all selected tests at once.

        Workers of pytest-xdist share one: the first runs it, the others wait for its report.
        """
        chosen = _selected(request.session.items)
        focus = chosen if len(chosen) < len(self._requirements()) else []
        worker = getattr(self._config, "workerinput", None)
        shared = tmp_path_factory.getbasetemp()
        # The folder that workers share is the parent of each one's own.
        folder = (shared.parent if worker else shared) / "drakit"
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = folder / "done.json"
            if not done.exists():
                reports = self._path("report") or folder / "report"
                problem = self._run(focus, drakit_kubeconfig, reports, folder / "log")
                done.write_text(json.dumps({"problem": problem, "report": str(reports / _REPORT)}))
                told = False
            else:
                told = True
        ended = json.loads(done.read_text())
        if ended["problem"]:
            yield DrakitRun(problem=ended["problem"], told=told)
            return
        report = json.loads(Path(ended["report"]).read_text(encoding="utf-8"))
        yield DrakitRun({result["id"]: result for result in report["results"]})

    def _run(self, focus: Sequence[str], kubeconfig: Path | None, reports: Path, log: Path) -> str:
        """Run the command to its end; why there is no report of it, or ""."""
        driver = self._path("driver")
        words = [*self._command(), "conformance", str(driver), "--report", str(reports)]
        if kubeconfig is not None:
            words += ["--kubeconfig", str(kubeconfig)]
        elif tier := self._setting("tier"):
            words += ["--tier", tier]
        words += [word for requirement in focus for word in ("--focus", requirement)]
        words += shlex.split(self._setting("arguments"))
        before = _stamp(reports / _REPORT)
        with log.open("wb") as output:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603
            try:
                code = process.wait()
            except BaseException:
                # It takes its clusters away when it is told to end.
                process.terminate()
                process.wait(_STOP_SECONDS)
                raise
        if _stamp(reports / _REPORT) != before:
            return ""
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:])
        return f"drakit could not judge (exit code {code}):\n{last}\n\n$ {shlex.join(words)}"


def _stamp(path: Path) -> tuple[int, int] | None:
    """By what a new report is told from one of an earlier run."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino


def _selected(items: Sequence[pytest.Item]) -> list[str]:
    """The ids of the requirements whose tests were not deselected."""
    calls = [item.callspec for item in items if hasattr(item, "callspec")]
    return [call.params[_PARAMETER]["id"] for call in calls if _PARAMETER in call.params]
