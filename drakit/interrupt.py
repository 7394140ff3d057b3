"""Ctrl-C and SIGTERM: the first ends the run and cleans up, the second ends at once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

EXIT_CODE = 130
_AT_ONCE = b"drakit: interrupted again; what is left is taken away in the background\n"


@contextlib.contextmanager
def stoppable() -> Iterator[list[Callable[[], None]]]:
    """Turn the first SIGINT or SIGTERM into KeyboardInterrupt; at the second the process ends.

    The guardian process then takes away what is left; what it does not know is for the functions in the yielded list,
    which are called first. A signal that is ignored (nohup, a job in the background of a
    script) stays so.
    """
    interrupted = False
    last: list[Callable[[], None]] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            for action in last:
                action()
            with contextlib.suppress(OSError):
                os.write(2, _AT_ONCE)
            os._exit(EXIT_CODE)
        interrupted = True
        raise KeyboardInterrupt

    previous = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield last
    finally:
        # After an interrupt the program is about to end, and a further one must not show a traceback.
        for number, handler in ({} if interrupted else previous).items():
            signal.signal(number, handler)
