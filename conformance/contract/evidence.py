"""Evidence of a failed contract test: calls in both directions, slices, CDI files, the driver's last words."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from clusters.client import ClientError
from clusters.process import exit_text
from conformance.model import Evidence

if TYPE_CHECKING:
    from conformance.contract.bench import Bench

_CALLS = 40
_CALL_CHARACTERS = 2000
_FILE_CHARACTERS = 4000
_METADATA = ("name", "ownerReferences")


def collect(bench: Bench, since: float) -> tuple[Evidence, ...]:
    """Everything seen on this bench since a monotonic time; what cannot be had any more is left out.

    Credentials go before anything is cut, since half a token would not be recognised.
    """
    items: list[Evidence] = []
    redact = bench.node.redact
    plugin_calls = [
        redact(str(call))[:_CALL_CHARACTERS] for call in bench.plugin_proxy.calls(since=since)[-_CALLS:]
    ]
    if plugin_calls:
        items.append(Evidence("call", "calls on the driver's sockets", "\n".join(plugin_calls)))
    api_calls = [str(call) for call in bench.api_proxy.calls(since=since)[-_CALLS:]]
    if api_calls:
        items.append(Evidence("call", "the driver's calls to the API server", "\n".join(api_calls)))
    with contextlib.suppress(ClientError):
        if slices := bench.published.slices():
            text = yaml.safe_dump_all(map(_telling, slices), sort_keys=False, allow_unicode=True)
            items.append(Evidence("object", "its ResourceSlices", text))
    with contextlib.suppress(OSError):
        for name, content in bench.cdi_files().items():
            text = redact(content.decode(errors="replace"))[:_FILE_CHARACTERS]
            items.append(Evidence("file", f"CDI directory: {name}", text))
    if bench.driver is not None:
        state = "running" if bench.driver.running else f"ended with {exit_text(bench.driver.exit_code)}"
        items.append(Evidence("log", f"output of the driver ({state})", bench.driver.tail(60) or "nothing"))
    return tuple(items)


def _telling(item: Mapping[str, Any]) -> dict[str, Any]:
    """A slice with what the driver decides about it first; a terminal shows the first lines only."""
    metadata = {key: item["metadata"][key] for key in _METADATA if key in item["metadata"]}
    return {"metadata": metadata, "spec": item["spec"]}
