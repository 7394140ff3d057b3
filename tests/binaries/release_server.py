"""A server of releases on this machine, and a stand-in for `go` that records how it was called."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from clusters.binaries.download import architecture

ARCH = architecture()
KUBELET = f"/v1.37.2/bin/linux/{ARCH}/kubelet"
ETCD = f"/v3.7.3/etcd-v3.7.3-linux-{ARCH}.tar.gz"
ETCD_MEMBER = f"etcd-v3.7.3-linux-{ARCH}/etcd"
SUMS = "/v3.7.3/SHA256SUMS"
TESTS = f"/v1.37.2/kubernetes-test-linux-{ARCH}.tar.gz"


def digest(data: bytes) -> str:
    """What a release publishes beside a file."""
    return hashlib.sha256(data).hexdigest()


def archive(**members: bytes) -> bytes:
    """A tar.gz of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


@dataclass
class Releases:
    """What is served: bytes, or a status, or a redirect; `cuts` is how often an answer ends in its middle."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    lengthless: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def add(self, path: str, data: bytes, sums: str | None = None) -> None:
        """Serve a file, and its checksum beside it."""
        self.files[path] = data
        self.files[f"{path}.sha256"] = (digest(data) if sums is None else sums).encode()


@contextmanager
def serving() -> Iterator[Releases]:
    """A server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(self.command)

        do_HEAD = do_GET

        def _answer(self, method: str) -> None:
            releases.asked.append(f"{method} {self.path}")
            if self.path in releases.redirects:
                self.send_response(302)
                self.send_header("Location", releases.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            data = releases.files.get(self.path)
            status = releases.statuses.get(self.path, 404 if data is None else 200)
            self.send_response(status)
            data = b"an error page" if status != 200 or data is None else data
            if self.path not in releases.lengthless:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if releases.cuts.get(self.path, 0) > 0:
                releases.cuts[self.path] -= 1
                data = data[: len(data) // 2]
            if method == "GET":
                self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """The tests tell what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    releases = Releases(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield releases
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


_SCRIPT = """#!/bin/sh
if [ "$1" = env ]; then echo "$FAKE_GO_VERSION"; echo "$FAKE_GO_TOOLCHAIN"; exit; fi
echo "$$ $PWD $GOFLAGS $GOWORK $CGO_ENABLED $*" >> {calls}
for word; do
    if [ "$before" = -o ]; then target=$word; fi
    before=$word
done
printf half > "$target"
printf half > "$GOTMPDIR/leftover"
# Blocks while there is a gate, together with a child as compilers are.
if [ -p {gate} ]; then cat {gate} > /dev/null; fi
if [ -n "$FAKE_GO_FAILS" ]; then echo "$FAKE_GO_FAILS" >&2; exit 1; fi
printf 'built %s' "$word" > "$target"
"""


class FakeGo:
    """A program `go` in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._calls, self.gate = folder / "calls", folder / "gate"
        program = folder / "go"
        program.write_text(_SCRIPT.format(calls=self._calls, gate=self.gate))
        program.chmod(0o755)

    def let_go(self) -> None:
        """Let the builds that wait at the gate go on, and all further ones."""
        handle = os.open(self.gate, os.O_RDWR)
        self.gate.unlink()
        os.close(handle)

    @property
    def calls(self) -> list[str]:
        """The builds: pid, working folder, settings, and arguments."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    @property
    def packages(self) -> list[str]:
        """What was built."""
        return [call.rpartition(" ")[2] for call in self.calls]
