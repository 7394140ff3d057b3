"""From the text of an expression to what can be checked; wrong ones are read as far as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .ast import Expr
from .build import Builder, TreeTooDeepError
from .lexer import Token, Unreadable, tokenize
from .parser import NotCorrectError, TooDeepError, parse
from .source import NO_LOCATION, Location, Source

_MAX_SYNTAX_ERRORS: Final = 100


def read(source: Source, builder: Builder) -> Expr | None:
    """The expression, as far as it can be read; problems are reported to the source."""
    tokens, unreadable = tokenize(source)
    try:
        if not unreadable:
            try:
                return builder.build(parse(tokens))
            except NotCorrectError:
                pass
        return _read_wrong(source, builder, tokens, unreadable)
    except (TooDeepError, TreeTooDeepError) as error:
        source.report(NO_LOCATION, str(error))
        return None


def _read_wrong(
    source: Source, builder: Builder, tokens: Sequence[Token], unreadable: Sequence[Unreadable]
) -> Expr | None:
    # Correct expressions, which are nearly all, do without these modules.
    from .recovered import as_tree
    from .recovery import GivenUpError, Recovery

    recovery = Recovery(tokens, source.text, unreadable)
    given_up: str | None = None
    context = None
    try:
        context = recovery.parse()
    except GivenUpError as error:
        given_up = str(error)
    reports = [(problem.offset, problem.message) for problem in unreadable]
    reports += [(problem.offset, problem.message) for problem in recovery.problems]
    for offset, message in reports[:_MAX_SYNTAX_ERRORS]:
        source.report(_place(source, offset), f"Syntax error: {message}")
    if len(reports) > _MAX_SYNTAX_ERRORS:
        offset = reports[_MAX_SYNTAX_ERRORS][0]
        source.report(_place(source, offset), f"Syntax error: More than {_MAX_SYNTAX_ERRORS} syntax errors")
        return None
    if given_up:
        source.report(NO_LOCATION, given_up)
    return None if context is None else builder.build(as_tree(context))


def _place(source: Source, offset: int) -> Location:
    # An empty text has no first column.
    return source.location(offset) if source.text else Location(1, -1)
