"""Memory of a scheduler's devices: `python -m benchmarks.memory`.

A row has what Python allocated for slices (as decoded from JSON) and for everything that the allocator keeps of them
after a pod was tried on all nodes, in bytes a device.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

from benchmarks import fleet, table
from benchmarks.allocate import Scheduler

SIZES = (4_000, 40_000)
_DEVICES = 8


def main() -> None:
    given = table.parser(__doc__).parse_args()
    table.show(_rows(), given.markdown)


def _rows() -> Iterator[dict[str, Any]]:
    _bytes(_DEVICES)  # what is loaded and compiled once is no part of it
    least: float | None = None
    for devices in SIZES:
        kept = _bytes(devices) / devices
        least = least or kept
        yield {"devices": devices, "bytes a device": round(kept), "ratio": round(kept / least, 2)}


def _bytes(devices: int) -> int:
    """What stays allocated, without what the line itself takes."""
    line = fleet.line(devices // _DEVICES, _DEVICES, 0.5)
    # A request for more than there is looks at every device, so that all that can be kept is kept.
    line["claims"] = [fleet.claim(_DEVICES + 1)]
    gc.collect()
    tracemalloc.start()
    scheduler = Scheduler(line)
    scheduler.round()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return kept


if __name__ == "__main__":
    main()
