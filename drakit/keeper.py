"""The background process that holds a cluster of `drakit up`.

It reads its order as one JSON document on standard input and answers on standard output with JSON lines: {"note":
TEXT}, and at last {"ready": RECORD}, {"error": TEXT} when the user has to change something, or {"broke": TEXT} when
the kit has a fault. Afterwards it lives until SIGTERM. While the cluster starts it also ends when nobody reads its
answers any more.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from drakit.state import Folder, StateError

_LOG: Final = logging.getLogger("drakit.keeper")
_POLL: Final = 0.5
_COULD_NOT: Final = 1


class _Ended(BaseException):
    """Asked to end while the cluster starts."""


class _Stopping:
    """SIGTERM and SIGINT: ends the start of the cluster at once, and the cluster in an orderly way."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._interruptible = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.event.set()
        if self._interruptible:
            self._interruptible = False
            raise _Ended

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A signal in this context raises _Ended; so does one that came before."""
        try:
            self._interruptible = True
            if self.event.is_set():
                raise _Ended
            yield
        finally:
            self._interruptible = False


def main() -> int:
    """Hold one cluster; the exit code is 0 after an orderly end and 1 when it could not be started."""
    order: dict[str, Any] = json.load(sys.stdin)
    _restore_path(order["python_path"])
    stopping = _Stopping()
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname).1s %(message)s", level=logging.WARNING)
    _LOG.setLevel(logging.INFO)
    with contextlib.ExitStack() as stack:
        try:
            folder = Folder(order["name"])
            traces = stack.enter_context(folder.held())
            _log_to(folder.log)
            with stopping.interruptible():
                # The parts of a cluster take their time to load; the name is taken before.
                assembly = importlib.import_module("drakit.assembly")
                running = assembly.start(folder, order, traces, stack, _tell)
                _detach()
        except _Ended:
            return _failed(f'cluster "{order["name"]}" was told to end before it was ready')
        except OSError as error:
            return _failed(f"{error.filename or 'cannot go on'}: {error.strerror}")
        except StateError as error:
            return _failed(str(error))
        except Exception:  # noqa: BLE001 - whatever else happens is a fault of the kit, and told as one
            _answer({"broke": traceback.format_exc()})
            return _COULD_NOT
        while not stopping.event.wait(_POLL):
            running.look()
        _LOG.info("asked to end")
    return 0


def _restore_path(value: str | None) -> None:
    """Set PYTHONPATH as the user had it: it was changed for this process, not for drivers in Python."""
    os.environ.pop("PYTHONPATH", None)
    if value is not None:
        os.environ["PYTHONPATH"] = value


def _failed(text: str) -> int:
    _LOG.error("%s", text)
    _answer({"error": text})
    return _COULD_NOT


def _tell(message: dict[str, Any]) -> None:
    """Send a message to `drakit up`; raises _Ended when nobody reads it."""
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        raise _Ended from None


def _answer(message: dict[str, Any]) -> None:
    """Send the last message, which nobody has to read."""
    with contextlib.suppress(_Ended):
        _tell(message)


def _log_to(path: Path) -> None:
    """Let everything that goes to standard error go to the log, which its owner alone may read."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stderr.fileno())
    os.close(log)


def _detach() -> None:
    """Let go of the pipe to `drakit up`."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    # Threads of a broken cluster must not keep the process.
    os._exit(code)
