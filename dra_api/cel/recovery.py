"""Reads wrong expressions: finds all problems and goes on behind each, as cel-go's generated parser does.

The strategy is ANTLR's: leave out one token, imagine one, or leave the rule and skip what cannot follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .grammar import (
    EPSILON,
    RULES,
    Choice,
    Element,
    Optional,
    Path,
    Plus,
    Rule,
    Star,
    State,
    Tail,
    Token,
    listed,
)
from .lexer import Token as Input
from .lexer import Unreadable
from .lookahead import FailureError, Lookahead, quoted
from .parser import MAX_DEPTH, TooDeepError

_MAX_ATTEMPTS: Final = 30
_MAX_SKIPPED: Final = 256


class GivenUpError(Exception):
    """Too many attempts to go on, or too much to skip. The text is a problem of its own without a place, or empty."""


@dataclass(slots=True)
class Context:
    """What was found of a rule: labels with tokens, contexts, or lists of them. `alternative` names the way taken."""

    rule: str
    start: int
    parent: Context | None
    invoked: State | None
    alternative: str = ""
    found: dict[str, Any] = field(default_factory=dict)

    def put(self, label: str, value: Any) -> None:
        """Keep a part under its label."""
        if label.endswith("+"):
            self.found.setdefault(label[:-1], []).append(value)
        elif label:
            self.found[label] = value


@dataclass(slots=True)
class Problem:
    """A syntax error at an offset."""

    offset: int
    message: str


class Recovery(Lookahead):
    """Parses tokens of one wrong expression."""

    def __init__(self, tokens: Sequence[Input], text: str, unreadable: Sequence[Unreadable]) -> None:
        super().__init__(tokens, text, unreadable)
        self.problems: list[Problem] = []
        self._context: Context | None = None
        self._recovering = False
        self._last_index = -1
        self._last_states: set[int] = set()
        self._attempts = 0
        self._depths: dict[str, int] = {}

    def parse(self) -> Context:
        """What was found. Raises GivenUpError or TooDeepError."""
        return self._rule("start", 0, None)

    # Rules and their elements.

    def _rule(self, name: str, precedence: int, invoked: State | None) -> Context:
        context = Context(name, self._peek().offset, self._context, invoked)
        self._context = context
        self._depths[name] = self._depths.get(name, 0) + 1
        if self._depths[name] > MAX_DEPTH:
            raise TooDeepError
        try:
            for index, element in enumerate(RULES[name]):
                if isinstance(element, Tail):
                    context = self._tail(name, (index,), element, precedence, context)
                else:
                    self._element(name, (index,), element, context)
        except FailureError as failure:
            self._report(failure)
            self._recover(failure.state)
            context = self._context
        self._context = context.parent
        self._depths[name] -= 1
        return context

    def _run(self, name: str, path: Path, parts: tuple[Element, ...], context: Context) -> None:
        for index, element in enumerate(parts):
            self._element(name, (*path, index), element, context)

    def _element(self, name: str, path: Path, element: Element, context: Context) -> None:
        state = self._state = self._network.states[name, path]
        if isinstance(element, Token):
            token = self._match(element)
            context.put(element.label, token)
        elif isinstance(element, Rule):
            context.put(element.label, self._rule(element.name, element.precedence, state))
        elif isinstance(element, Optional):
            self._sync(state)
            if self._la() in self._network.next_tokens(state.ways[0]):
                self._run(name, path, element.parts, context)
        elif isinstance(element, Plus):
            self._plus(name, path, element, context)
        elif isinstance(element, Star):
            self._star(name, path, element, context)
        elif isinstance(element, Choice):
            self._sync(state)
            chosen = self._choose(context.rule)
            context.alternative, parts = element.alternatives[chosen]
            self._run(name, (*path, chosen), parts, context)

    def _plus(self, name: str, path: Path, element: Plus, context: Context) -> None:
        self._sync(self._network.states[name, path])
        kind = next(iter(element.token.types))
        while True:
            self._element(name, (*path, 0), element.token, context)
            self._state = self._network.backs[name, path]
            self._sync(self._state)
            if self._la() != kind:
                if kind == "-" and self._la() not in self._network.next_tokens(self._state):
                    raise self._no_way(1)
                return
            if kind == "-" and self._la(2) not in self._network.next_tokens(self._state):
                raise self._no_way(2)

    def _star(self, name: str, path: Path, element: Star, context: Context) -> None:
        state = self._network.states[name, path]
        self._sync(state)
        first = element.parts[0]
        starts = first.types if isinstance(first, Token) else frozenset()
        while self._la() in starts:
            if element.trailing_comma:
                inner = self._network.states[name, (*path, 1)]
                if self._la(2) not in self._network.next_tokens(inner):
                    return
            self._run(name, path, element.parts, context)
            self._state = self._network.backs[name, path]
            self._sync(self._state)

    def _tail(self, name: str, path: Path, element: Tail, precedence: int, context: Context) -> Context:
        self._state = self._network.states[name, path]
        self._sync(self._state)
        while self._continues(name, element, precedence):
            outer = Context(name, context.start, context.parent, context.invoked, found={"e": context})
            self._context = context = outer
            self._state = self._network.states[name, (*path, -1)]
            if len(element.alternatives) > 1:
                self._sync(self._state)
            index = self._choose_tail(name)
            context.alternative, _, parts = element.alternatives[index]
            self._run(name, (*path, index), parts, context)
            self._state = self._network.backs[name, path]
            self._sync(self._state)
        return context

    def _continues(self, name: str, element: Tail, precedence: int) -> bool:
        kind = self._la()
        for _, level, parts in element.alternatives:
            first = parts[0]
            if isinstance(first, Token) and kind in first.types and level >= precedence:
                return True
        return False

    # Getting back in step.

    def _expected(self) -> set[str]:
        """Tokens that may come next, in the rule and in those that called it."""
        following = self._network.next_tokens(self._state)
        expected = set(following)
        context = self._context
        while context is not None and context.invoked is not None and EPSILON in following:
            after = context.invoked.after
            following = self._network.next_tokens(after) if after is not None else frozenset()
            expected |= following
            context = context.parent
        expected.discard(EPSILON)
        if EPSILON in following:
            expected.add("EOF")
        return expected

    def _recovery_set(self) -> set[str]:
        """Tokens that may follow any of the rules that are open."""
        found: set[str] = set()
        context = self._context
        while context is not None and context.invoked is not None:
            if context.invoked.after is not None:
                found |= self._network.next_tokens(context.invoked.after)
            context = context.parent
        found.discard(EPSILON)
        return found

    def _note(self, offset: int, message: str) -> None:
        self._recovering = True
        self.problems.append(Problem(offset, message))

    def _in_step(self) -> None:
        self._recovering = False
        self._last_index = -1
        self._last_states = set()

    def _match(self, element: Token) -> Input:
        token = self._peek()
        if token.type in element.types:
            self._in_step()
            self._consume()
            return token
        self._attempt()
        deleted = self._delete_one(limited=True)
        if deleted is not None:
            self._consume()
            return deleted
        if self._insert_one():
            return Input(next(iter(element.types)), f"<missing {listed(element.types)}>", token.offset)
        raise self._mismatch()

    def _mismatch(self) -> FailureError:
        token = self._peek()
        message = f"mismatched input {quoted(token.text)} expecting {listed(self._expected())}"
        return FailureError(self._state, token.offset, message)

    def _delete_one(self, *, limited: bool = False) -> Input | None:
        """Leave out a token when the next one fits."""
        if self._la(2) not in self._expected() or self._at >= len(self._tokens) - 1:
            return None
        self._report_unwanted()
        self._consume()
        token = self._peek()
        self._in_step()
        return token

    def _insert_one(self) -> bool:
        """Imagine a token when the current one fits behind it."""
        after = self._state.after
        if after is None:
            return False
        state, self._state = self._state, after
        fits = self._la() in self._expected()
        self._state = state
        if fits and not self._recovering:
            token = self._peek()
            message = f"missing {listed(self._expected())} at {quoted(token.text)}"
            self._note(token.offset, message)
        return fits

    def _report_unwanted(self) -> None:
        if self._recovering:
            return
        token = self._peek()
        self._note(
            token.offset, f"extraneous input {quoted(token.text)} expecting {listed(self._expected())}"
        )

    def _sync(self, state: State) -> None:
        """Check that the parser is in step before a decision."""
        if self._recovering:
            return
        following = self._network.next_tokens(state)
        if EPSILON in following or self._la() in following:
            return
        if state.kind == "back":
            self._report_unwanted()
            self._skip(self._expected() | self._recovery_set(), limited=False)
        elif self._delete_one() is None:
            raise self._mismatch()

    def _report(self, failure: FailureError) -> None:
        if not self._recovering:
            self._note(failure.offset, str(failure))

    def _recover(self, state: State) -> None:
        self._attempt()
        if self._last_index == self._at and id(state) in self._last_states:
            # The same place again: at least one token must go.
            self._consume()
        self._last_index = self._at
        self._last_states.add(id(state))
        self._skip(self._recovery_set(), limited=True)

    def _skip(self, until: set[str], *, limited: bool) -> None:
        skipped = 0
        while self._la() != "EOF" and self._la() not in until:
            if limited and skipped >= _MAX_SKIPPED:
                raise GivenUpError(f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
            skipped += 1
            self._consume()

    def _attempt(self) -> None:
        self._attempts += 1
        if self._attempts > _MAX_ATTEMPTS:
            self.problems.append(
                Problem(self._peek().offset, f"error recovery attempt limit exceeded: {_MAX_ATTEMPTS}")
            )
            raise GivenUpError("")
