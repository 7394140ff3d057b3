"""Evidence of a failed contract test: calls in both directions, slices, CDI files, the driver's last words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from conformance.model import Evidence

if TYPE_CHECKING:
    from conformance.contract.bench import Bench

_CALLS = 40
_FILE_CHARACTERS = 4000


def collect(bench: Bench, since: float) -> tuple[Evidence, ...]:
    """Everything seen on this bench since a monotonic time."""
    items: list[Evidence] = []
    plugin_calls = [str(call) for call in bench.plugin_proxy.calls(since=since)]
    if plugin_calls:
        items.append(Evidence("call", "calls on the driver's sockets", "\n".join(plugin_calls[-_CALLS:])))
    api_calls = [str(call) for call in bench.api_proxy.calls(since=since)]
    if api_calls:
        items.append(Evidence("call", "the driver's calls to the API server", "\n".join(api_calls[-_CALLS:])))
    slices = bench.slices()
    if slices:
        items.append(Evidence("object", "its ResourceSlices", yaml.safe_dump_all(slices, sort_keys=False)))
    for name, content in bench.cdi_files().items():
        text = content.decode(errors="replace")[:_FILE_CHARACTERS]
        items.append(Evidence("file", f"CDI directory: {name}", text))
    if bench.driver is not None:
        state = "running" if bench.driver.running else f"ended with exit code {bench.driver.exit_code}"
        items.append(Evidence("log", f"output of the driver ({state})", bench.driver.tail(60)))
    return tuple(items)
