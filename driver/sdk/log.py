"""Plain-text logs on stderr: time, level, what happened, then `key=value` pairs; one line an event."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+\Z")
_logger = logging.getLogger("driver")


def quote(value: object) -> str:
    """A value as one word: as it is when it is a plain word, otherwise as a JSON string."""
    text = str(value)
    return text if _PLAIN.match(text) else json.dumps(text, ensure_ascii=False)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return f"{moment.removesuffix('+00:00')}Z {record.levelname:<7} {record.getMessage()}"


def start(level: int = logging.INFO) -> None:
    """Send the logs to stderr. What libraries log below a warning is left out."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # The HTTP library warns about each cut connection in its own words; the API client reports it with its context.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    _logger.setLevel(level)


def _emit(level: int, message: str, fields: dict[str, object]) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(
            level, "%s", " ".join([message, *(f"{key}={quote(value)}" for key, value in fields.items())])
        )


def info(message: str, **fields: object) -> None:
    """Something that was expected happened."""
    _emit(logging.INFO, message, fields)


def warning(message: str, **fields: object) -> None:
    """Something is odd or failed in a way that the driver handles itself."""
    _emit(logging.WARNING, message, fields)


def error(message: str, **fields: object) -> None:
    """Something is broken until somebody acts."""
    _emit(logging.ERROR, message, fields)
