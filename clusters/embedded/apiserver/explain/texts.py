"""Reads the descriptions and facts of API types; both are data files beside this module.

`facts.json` is written by tools/openapi_facts.py, the YAML files by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from dra_api.schema import Message

_FOLDER: Final = Path(__file__).parent
_EVERYWHERE: Final = "*"
_DRA: Final = "resource/v1."


@cache
def _facts() -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads((_FOLDER / "facts.json").read_bytes())
    return content


@cache
def _texts() -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for path in sorted(_FOLDER.glob("*.yaml")):
        result |= yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return result


def facts(message: str) -> Mapping[str, Any]:
    """`required` (names of fields) and `enum` (values by field) of a message such as core/v1.Pod, as far as any."""
    return _facts().get(message, {})


def texts(message: Message) -> Mapping[str, str]:
    """Descriptions of the fields of a message by name, and of itself under the empty name."""
    known = _texts()
    own = known.get(message.name)
    if own is None and message.name.startswith("resource/"):
        own = known.get(_DRA + message.struct)
    common = known[_EVERYWHERE] if "kind" in message.fields else {}
    return {**common, **(own or {})}
