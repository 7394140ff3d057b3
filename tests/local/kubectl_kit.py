"""kubectl of two versions against a server of a test."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from clusters import binaries

VERSIONS = ("v1.37", "v1.36")
_UP_SECONDS = 300.0


def build(version: str) -> Path:
    """The kubectl of a minor version (`v1.37`), from the cache or built into it."""
    return binaries.build(version, ["kubectl"], progress=print).path("kubectl")


def kubeconfig(path: Path, url: str, ca_pem: bytes, token: str) -> Path:
    """Write the kubeconfig of one identity."""
    authority = base64.b64encode(ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@dataclass(frozen=True)
class Output:
    """What one command printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def rows(self) -> list[str]:
        """The lines without the blanks that kubectl pads the last column with."""
        return [line.rstrip() for line in self.out.splitlines()]


class Kubectl:
    """One binary as one identity, with a home folder of its own for the discovery cache."""

    def __init__(self, binary: Path, config: Path, home: Path) -> None:
        self._binary = binary
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(config),
            "TZ": "UTC",
        }

    def run(self, *arguments: str, text: str | None = None, **environment: str) -> Output:
        """Run a command to its end; `text` goes to its standard input."""
        done = subprocess.run(
            [str(self._binary), *arguments],
            env={**self.environment, **environment},
            input=text,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return Output(done.stdout, done.stderr, done.returncode)

    def __call__(self, *arguments: str, text: str | None = None, **environment: str) -> Output:
        """Run a command that must succeed."""
        result = self.run(*arguments, text=text, **environment)
        assert result.code == 0, f"kubectl {' '.join(arguments)}: {result.err}{result.out}"
        return result

    def apply(self, *documents: dict[str, Any], flags: Sequence[str] = ()) -> Output:
        """`kubectl apply` of objects."""
        return self("apply", *flags, "-f", "-", text=yaml.safe_dump_all(documents))

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Lines]:
        """A command that goes on until the block ends."""
        process = subprocess.Popen(
            [str(self._binary), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert process.stdout is not None
            yield Lines(process.stdout)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def drakit_up(home: Path, version: str, tier: str, kind: type[Kubectl] = Kubectl) -> Iterator[Kubectl]:
    """kubectl of a version as the administrator of a cluster of `drakit up` whose state is in the folder `home`."""
    binary = build(version)
    environment = {**os.environ, "XDG_STATE_HOME": str(home)}
    command = [sys.executable, "-m", "drakit"]
    up = subprocess.run(
        [*command, "up", "--tier", tier],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_UP_SECONDS,
        check=False,
    )
    assert up.returncode == 0, up.stderr
    try:
        yield kind(binary, Path(home, "drakit", "clusters", "drakit", "kubeconfig"), home)
    finally:
        subprocess.run(
            [*command, "down"], env=environment, capture_output=True, timeout=_UP_SECONDS, check=True
        )


class Lines:
    """The lines of a running command."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def next(self, seconds: float = 20.0) -> str:
        """The next line without its padding; fails when none comes in time."""
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(self._stream.readline()), daemon=True)
        reader.start()
        reader.join(seconds)
        assert found, f"kubectl printed nothing for {seconds:.0f} s"
        assert found[0], "kubectl ended"
        return found[0].rstrip()


class Space:
    """kubectl in one namespace of a whole cluster."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self.kubectl, self.namespace = kubectl, namespace

    def __call__(self, *arguments: str, text: str | None = None, **environment: str) -> Output:
        """A command in the namespace that must succeed."""
        return self.kubectl("-n", self.namespace, *arguments, text=text, **environment)

    def run(self, *arguments: str, text: str | None = None) -> Output:
        """A command in the namespace."""
        return self.kubectl.run("-n", self.namespace, *arguments, text=text)

    def table(self, *arguments: str) -> list[list[str]]:
        """The cells of a printed table, masked."""
        return cells(self(*arguments).out)

    def apply(self, *documents: dict[str, Any]) -> Output:
        """`kubectl apply` of objects."""
        return self.kubectl.apply(*documents, flags=("-n", self.namespace))

    def running(self, *arguments: str) -> AbstractContextManager[Lines]:
        """A command that goes on."""
        return self.kubectl.running("-n", self.namespace, *arguments)

    def until(self, wanted: Any, *arguments: str, seconds: float = 30.0) -> None:
        """Print a table again and again until its masked cells are as wanted."""
        deadline = time.monotonic() + seconds
        while (found := self.table(*arguments)) != wanted:
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {wanted}; last: {found}"
            time.sleep(0.1)


_AGE = r"(?:\d+[dhms]){1,2}"
_MASKS = [
    (rf"^{_AGE}$", "AGE"),
    (rf"\({_AGE} ago\)", "(AGE ago)"),
    (rf"^{_AGE} \((x\d+) over {_AGE}\)$", r"AGE (\1)"),
    # The hash of a template: a decimal number in ten letters and digits.
    (r"(?<=[-=])[bcdf4-9]{8,10}\b", "HASH"),
    (r"\b10\.244\.\d+\.\d+\b", "IP"),
    (r"\b10\.(?:9[6-9]|1[01]\d)\.\d+\.\d+\b", "CLUSTER-IP"),
    (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "UID"),
    (r"\b[0-9a-f]{64}\b", "ID"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} \+0000", "TIME"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\bin \d+ms \(\d+ms including waiting\)", "in MS (MS including waiting)"),
    # Generated names end in five characters without vowels.
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-XXXXX"),
]


def masked(text: str) -> str:
    """The text with what differs from run to run replaced."""
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text)
    return text


def cells(text: str) -> list[list[str]]:
    """The masked cells of each line; columns are apart by two blanks or more, and lines without any are left out."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    return [[masked(cell) for cell in line] for line in lines]
