"""Strict decoding of a configuration file.

Source: kubernetes v1.37.2 `cmd/kube-scheduler/app/options/configfile.go`, kube-scheduler v0.37.2
`config/v1/types.go` (DecodeNestedObjects), apimachinery v0.37.2 `pkg/runtime`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dra_api.decode import DecodeError, decode_yaml

from . import durations
from .types import GO_NAMES, GROUP_VERSION, KIND, STRUCTS

Values = dict[str, Any]

_SCHEME: Final = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_BITS: Final = {"int32": 32, "int64": 64}
_SHOWN_BYTES: Final = 1024


class ConfigError(ValueError):
    """A configuration that kube-scheduler would refuse; the text is the one that it ends with."""


class _StrictError(ConfigError):
    """Nothing worse than unknown or repeated fields."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"strict decoding error: {', '.join(problems)}")


def decode_config(text: str) -> Values:
    """The configuration; spans of time are nanoseconds, the arguments of known plugins are decoded.

    Raises ConfigError.
    """
    data = text.encode()
    try:
        value, repeated = decode_yaml(data)
    except DecodeError as problem:
        raise ConfigError(f"couldn't get version/kind; json parse error: {problem.message}") from None
    return decode_value(value, repeated)


def decode_value(value: Any, repeated: Sequence[str] = ()) -> Values:
    """The same from what YAML or JSON say. Raises ConfigError."""
    _check_kind(value, KIND)
    problems: list[str] = list(repeated)
    config = _struct(value, KIND, (), "", problems)
    for number, profile in enumerate(config.get("profiles") or ()):
        for index, entry in enumerate(profile.get("pluginConfig") or ()):
            where = f"decoding .profiles[{number}].pluginConfig[{index}]"
            try:
                entry["args"] = _arguments(entry.get("name") or "", entry.get("args"))
            except _StrictError as problem:
                problems.append(f"{where}: {problem}")
            except ConfigError as problem:
                raise ConfigError(f"{where}: {problem}") from None
    if problems:
        raise _StrictError(problems)
    return config


def _check_kind(value: Any, expected: str) -> None:
    fields = value if isinstance(value, dict) else {}
    shown = json.dumps(value, separators=(",", ":"), sort_keys=True)[:_SHOWN_BYTES]
    for name, missing in (("kind", "Object 'Kind'"), ("apiVersion", "Object 'apiVersion'")):
        if not fields.get(name):
            raise ConfigError(f"{missing} is missing in '{shown}'")
    kind, version = fields["kind"], fields["apiVersion"]
    if version != GROUP_VERSION or kind not in STRUCTS:
        raise ConfigError(f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"')
    if kind != expected:
        where = f"{version}, Kind={kind}"
        raise ConfigError(f"couldn't decode as {expected}, got {where}: ")


def _arguments(plugin: str, args: Any) -> Any:
    """The arguments of a plugin; those of plugins outside of Kubernetes stay as they are."""
    kind = f"{plugin}Args"
    if kind not in STRUCTS or args is None:
        return args
    if not isinstance(args, dict):
        raise ConfigError(f"decoding args for plugin {plugin}: {_mismatch(args, f'v1.{kind}', kind, ())}")
    given, version = args.get("kind") or kind, args.get("apiVersion") or GROUP_VERSION
    if version != GROUP_VERSION or given not in STRUCTS:
        text = f'no kind "{given}" is registered for version "{version}" in scheme "{_SCHEME}"'
        raise ConfigError(f"decoding args for plugin {plugin}: {text}")
    if given != kind:
        group = GROUP_VERSION.partition("/")[0]
        raise ConfigError(f"args for plugin {plugin} were not of type {kind}.{group}, got {given}.{group}")
    problems: list[str] = []
    try:
        result = _struct(args, kind, (), "", problems)
    except ConfigError as problem:
        raise ConfigError(f"decoding args for plugin {plugin}: {problem}") from None
    if problems:
        raise _StrictError([f"decoding args for plugin {plugin}: {_StrictError(problems)}"])
    return result


def _struct(value: Any, name: str, stack: tuple[str, ...], path: str, problems: list[str]) -> Values:
    fields = STRUCTS[name]
    result: Values = {}
    for key, item in value.items():
        if key not in fields:
            problems.append(f'unknown field "{path}{key}"')
        elif item is not None:
            result[key] = _value(item, fields[key], name, (*stack, key), f"{path}{key}", problems)
    return result


def _value(item: Any, type_: str, struct: str, stack: tuple[str, ...], path: str, problems: list[str]) -> Any:
    if type_.startswith("[]"):
        inner = type_[2:]
        if not isinstance(item, list):
            raise ConfigError(_mismatch(item, f"[]{GO_NAMES.get(inner, inner)}", struct, stack))
        return [
            _value(entry, inner, struct, stack, f"{path}[{index}]", problems)
            for index, entry in enumerate(item)
        ]
    if type_ in STRUCTS:
        if not isinstance(item, dict):
            raise ConfigError(_mismatch(item, GO_NAMES[type_], struct, stack))
        return _struct(item, type_, stack, f"{path}.", problems)
    if type_ == "any":
        return item
    if type_ == "duration":
        if not isinstance(item, str):
            raise ConfigError(f"json: cannot unmarshal {_kind_of(item)} into Go value of type string")
        try:
            return durations.parse(item)
        except ValueError as problem:
            raise ConfigError(str(problem)) from None
    if not _fits(item, type_):
        raise ConfigError(_mismatch(item, type_, struct, stack))
    return item


def _fits(item: Any, type_: str) -> bool:
    if type_ == "string":
        return isinstance(item, str)
    if type_ == "bool" or isinstance(item, bool):
        return type_ == "bool" and isinstance(item, bool)
    if type_ == "float32":
        return isinstance(item, (int, float))
    limit = 2 ** (_BITS[type_] - 1)
    return isinstance(item, int) and -limit <= item < limit


def _mismatch(item: Any, wanted: str, struct: str, stack: tuple[str, ...]) -> str:
    found = _kind_of(item)
    if found == "number" and wanted in _BITS:
        found = f"number {item}"
    return f"json: cannot unmarshal {found} into Go struct field {struct}.{'.'.join(stack)} of type {wanted}"


def _kind_of(item: Any) -> str:
    if isinstance(item, str):
        return "string"
    if isinstance(item, bool):
        return "bool"
    if isinstance(item, (int, float)):
        return "number"
    return "array" if isinstance(item, (list, tuple)) else "object"


def text_of(config: str | Mapping[str, Any]) -> str:
    """A configuration given as a mapping, as JSON."""
    return config if isinstance(config, str) else json.dumps(config)
