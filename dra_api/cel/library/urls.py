"""URLs (apiserver `pkg/cel/library/urls.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..types import Type
from ..values import EQUALITY, GO_NAMES, RUNTIME_TYPES, CelMap, StringList
from .uris import Url, UrlError, check_request_uri, parse, query_values

URL_TYPE: Final = types.struct("kubernetes.URL")
_S: Final = types.STRING

RUNTIME_TYPES[Url] = URL_TYPE
GO_NAMES[Url] = "cel.URL"
EQUALITY[Url] = lambda left, right: str(left) == str(right) if type(right) is Url else None
UNIT_EQUALITY.add(Url)


def _parse(text: str) -> Url:
    try:
        check_request_uri(text)
        return parse(text)
    except UrlError as error:
        raise EvalError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def _member(name: str, id: str, result: Type, call: Callable[[Url], Any]) -> Function:
    return Function(name, (Overload(id, (URL_TYPE,), result, True, call),))


URLS: Final = library(
    Function("url", (Overload("string_to_url", (_S,), URL_TYPE, call=_parse),)),
    _member("getScheme", "url_get_scheme", _S, lambda url: url.scheme),
    _member("getHost", "url_get_host", _S, lambda url: url.host),
    _member("getHostname", "url_get_hostname", _S, lambda url: url.split_host()[0]),
    _member("getPort", "url_get_port", _S, lambda url: url.split_host()[1]),
    _member("getEscapedPath", "url_get_escaped_path", _S, lambda url: url.escaped_path),
    _member(
        "getQuery",
        "url_get_query",
        types.map_of(_S, types.list_of(_S)),
        lambda url: CelMap({name: StringList(texts) for name, texts in query_values(url.query).items()}),
    ),
    Function("isURL", (Overload("is_url_string", (_S,), types.BOOL, call=_is_url),)),
)
"""Functions of URLs."""
