"""JSON lines: one JSON object a line in, one answer a line out, whatever stands in the lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from clusters import gates
from dra_api.nearest import nearest
from drakit.output import UserError, write_out

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_TYPES: Final = {dict: "a map", list: "a list", str: "a string", bool: "true or false"}


def refuse_options(command: str, *allowed: str) -> None:
    """Refuse options and arguments that have no part in JSON lines. Raises UserError."""
    context = click.get_current_context()
    given = [
        parameter.opts[-1] if isinstance(parameter, click.Option) else "files or an expression"
        for parameter in context.command.params
        if parameter.name not in ("jsonl", *allowed)
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise UserError(
            f"--jsonl reads standard input alone, without {', '.join(given)}: all of it stands in the lines"
            f" (docs/{command}.md)"
        )


class LineError(ValueError):
    """A line that cannot be answered; the text says what is wrong in it and what is allowed."""


def serve(answer: Answer) -> int:
    """Answer the lines of standard input, each at once, so that another program can wait for it.

    A line that is no JSON object, or that `answer` refuses, has the answer {"error": text}; those behind it are
    answered all the same. Returns the exit code, which is 0: what is wrong with a line stands in its answer.
    """
    for line in _input():
        if not write_out(json.dumps(reply(line, answer), separators=(",", ":")) + "\n"):
            break
    return 0


def reply(line: bytes, answer: Answer) -> Mapping[str, Any]:
    """The answer to one line."""
    try:
        return answer(parsed(line))
    except LineError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "nested too deeply"}
    except Exception as error:  # noqa: BLE001 - a fault of the kit in one line must not lose the others
        return {
            "error": f"the kit itself broke: {type(error).__name__}: {error}; please report it with this line"
        }


def parsed(line: bytes) -> dict[str, Any]:
    """The JSON object in a line. Raises LineError."""
    try:
        value = json.loads(line.decode(), parse_constant=_no_number)
    except UnicodeDecodeError:
        raise LineError("this is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise LineError(f"this is no JSON: {error.msg}, at column {error.colno}") from None
    except LineError:
        raise
    except ValueError as error:  # such as an integer with too many digits
        raise LineError(f"this is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise LineError(f"must be a JSON object, not {type_name(value)}")
    return value


def check_keys(request: Mapping[str, Any], allowed: Iterable[str], required: Iterable[str] = ()) -> None:
    """Refuse misspelt keys and lines without one that is needed; keys of the caller's own are ignored.

    Raises LineError.
    """
    missing = [key for key in allowed if key not in request]
    for key in request.keys() - set(allowed):
        if (near := nearest(key, missing)) is not None:
            raise LineError(f'unknown key "{key}", did you mean "{near}"?')
    for key in required:
        if request.get(key) is None:
            raise LineError(f"{key}: required")


def typed(request: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    """The value of a key; the default where it is absent or null. Raises LineError for another type."""
    value = request.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise LineError(f"{key}: must be {_TYPES[kind]}, not {type_name(value)}")
    return value


def feature_gates(request: Mapping[str, Any]) -> dict[str, bool]:
    """The gates of the key `featureGates`; those that have nothing to do with DRA are ignored. Raises LineError."""
    chosen = typed(request, "featureGates", dict, {})
    known = gates.known(gates.LATEST)
    for name, value in chosen.items():
        if name not in known and (near := nearest(name, known)) is not None:
            raise LineError(f'featureGates: there is no gate "{name}", did you mean "{near}"?')
        if not isinstance(value, bool):
            raise LineError(f"featureGates.{name}: must be true or false, not {type_name(value)}")
    return dict(chosen)


def type_name(value: Any) -> str:
    """The type of a JSON value in words."""
    if value is None:
        return "null"
    return next((words for kind, words in _TYPES.items() if type(value) is kind), "a number")


def _no_number(word: str) -> NoReturn:
    raise LineError(f"this is no JSON: {word} is no number")


def _input() -> Iterable[bytes]:
    return sys.stdin.buffer if sys.stdin is not None else ()
