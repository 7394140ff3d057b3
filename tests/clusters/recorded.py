"""Answers of a real server that tests replay: how they are read, sent again and compared."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from apiserver_harness import JSON, Answer, Http


def load(name: str) -> Any:
    """A file of data/."""
    return json.loads(gzip.decompress((Path(__file__).parent / "data" / name).read_bytes()))


def request(client: Http, sent: dict[str, Any]) -> Answer:
    """Send a recorded request."""
    query = "&".join(f"{key}={value}" for key, value in sent.get("query", {}).items())
    path = f"{sent['path']}?{query}" if query else sent["path"]
    return client.request(sent["method"], path, sent.get("body"), sent.get("type", JSON))


def send(client: Http, sent: dict[str, Any]) -> dict[str, Any]:
    """Send a recorded request; the answer as it is recorded."""
    return shown(request(client, sent))


def shown(answer: Answer) -> dict[str, Any]:
    """An answer as it is recorded: code, warnings, and of a failure what it says."""
    found: dict[str, Any] = {"code": answer.code}
    if answer.code >= 400:
        body = json.loads(re.sub("gen-[a-z0-9]{5}", "gen-XXXXX", answer.body.decode()))
        found["status"] = {name: body.get(name) for name in ("message", "reason", "details")}
    lines = answer.headers.getlist("Warning")
    warnings = [text for line in lines for text in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', line)]
    return found | ({"warnings": warnings} if warnings else {})
