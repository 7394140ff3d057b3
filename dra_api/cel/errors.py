"""What can go wrong with an expression: texts are those of cel-go and the Kubernetes API."""

from __future__ import annotations

from typing import Final

_KEY_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)


class CompileError(Exception):
    """An expression that cannot be used.

    `message` is what the API server writes behind `Invalid value: "...": `; `type` is the kind of field error
    (`Invalid` or `Internal`).
    """

    def __init__(self, message: str, type: str = "Invalid") -> None:
        super().__init__(message)
        self.message = message
        self.type = type


class EvalError(Exception):
    """An error value of the evaluation. Logical operators and macros may absorb it."""


class CancelledError(EvalError):
    """The evaluation was interrupted."""


class CostLimitExceededError(Exception):
    """The evaluation became too expensive. Nothing absorbs this."""


class CelRuntimeError(Exception):
    """An evaluation without a result; the text is that of a scheduler, hints included.

    `cost` is what it had cost up to then, in CEL's units; None when it had not begun or was not metered.
    """

    cost: int | None = None

    def __init__(self, message: str) -> None:
        if "no such key:" in message:
            message += _KEY_HINT
        super().__init__(message)


NO_SUCH_OVERLOAD: Final = "no such overload"


def no_such_overload() -> EvalError:
    """The error for operands of types that an operator or function does not take."""
    return EvalError(NO_SUCH_OVERLOAD)


class InternalError(Exception):
    """A fault of upstream's evaluation that ends it; nothing absorbs this."""
