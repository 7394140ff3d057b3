"""Which nodes a slice or device is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_api.errors import FieldError

_EXPRESSION_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_Test = Callable[[Mapping[str, str]], bool]
_INT64: Final = range(-(2**63), 2**63)


class NodeSelectorError(Exception):
    """A node selector that cannot be read, with the text of the scheduler."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The three ways to name nodes; the first that is set counts. Nothing set selects no node."""

    node_name: str
    all_nodes: bool
    selector: Mapping[str, Any] | None
    _terms: list[tuple[list[_Test], list[_Test]]] | NodeSelectorError | None

    @classmethod
    def of(cls, owner: Mapping[str, Any]) -> NodeSelection:
        """Read nodeName, allNodes and nodeSelector of a slice's spec or of a device."""
        selector = owner.get("nodeSelector")
        terms: list[tuple[list[_Test], list[_Test]]] | NodeSelectorError | None = None
        if selector is not None:
            try:
                terms = _parse(selector)
            except NodeSelectorError as error:
                terms = error
        return cls(owner.get("nodeName") or "", bool(owner.get("allNodes")), selector, terms)

    @property
    def is_set(self) -> bool:
        """Whether any of the three is set."""
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    def matches(self, node: Mapping[str, Any]) -> bool:
        """Whether the node is selected. Raises NodeSelectorError for a selector that cannot be read."""
        name = node["metadata"]["name"]
        if self.node_name:
            return bool(self.node_name == name)
        if self.all_nodes or self._terms is None:
            return self.all_nodes
        if isinstance(self._terms, NodeSelectorError):
            raise self._terms
        labels = node["metadata"].get("labels") or {}
        fields = {"metadata.name": name}
        return any(
            all(test(labels) for test in expressions) and all(test(fields) for test in field_tests)
            for expressions, field_tests in self._terms
        )


def _parse(selector: Mapping[str, Any]) -> list[tuple[list[_Test], list[_Test]]]:
    """Tests on labels and on fields for each term; terms are alternatives, empty ones select nothing."""
    problems: list[str] = []
    terms = []
    for index, term in enumerate(selector.get("nodeSelectorTerms") or []):
        path = f"nodeSelectorTerms[{index}]"
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        if expressions or fields:
            terms.append(
                (
                    _tests(expressions, f"{path}.matchExpressions", _expression_test, problems),
                    _tests(fields, f"{path}.matchFields", _field_test, problems),
                )
            )
    if problems:
        distinct = list(dict.fromkeys(problems))
        text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        raise NodeSelectorError(f"failed to parse node selector {_go_text(selector)}: {text}")
    return terms


def _tests(
    requirements: Sequence[Mapping[str, Any]],
    path: str,
    build: Callable[[Mapping[str, Any], str], _Test | FieldError],
    problems: list[str],
) -> list[_Test]:
    tests = []
    for index, requirement in enumerate(requirements):
        built = build(requirement, f"{path}[{index}]")
        if isinstance(built, FieldError):
            problems.append(str(built))
        else:
            tests.append(built)
    return tests


def _expression_test(requirement: Mapping[str, Any], path: str) -> _Test | FieldError:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or []
    if operator == "In":
        return lambda labels: labels.get(key) in values
    if operator == "NotIn":
        return lambda labels: labels.get(key) not in values
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    if operator not in _EXPRESSION_OPERATORS:
        return _unsupported(path, operator, _EXPRESSION_OPERATORS)
    limit = _int64(values[0]) if values else None
    if limit is None:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        return FieldError("Invalid", f"{path}.values[0]", text, values[0] if values else "")
    return lambda labels: _beyond(labels.get(key, ""), operator, limit)


def _field_test(requirement: Mapping[str, Any], path: str) -> _Test | FieldError:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or []
    if operator not in _FIELD_OPERATORS:
        return _unsupported(path, operator, _FIELD_OPERATORS)
    if len(values) != 1:
        return FieldError("Invalid", f"{path}.values", "must have one element", values)
    wanted, equal = values[0], operator == "In"
    return lambda fields: (fields.get(key, "") == wanted) is equal


def _unsupported(path: str, operator: str, allowed: Sequence[str]) -> FieldError:
    listed = ", ".join(f'"{name}"' for name in allowed)
    return FieldError("NotSupported", f"{path}.operator", f"supported values: {listed}", operator)


def _beyond(label: str, operator: str, limit: int) -> bool:
    number = _int64(label)
    return number is not None and (number > limit if operator == "Gt" else number < limit)


def _int64(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or int(text) not in _INT64:
        return None
    return int(text)


def _go_text(selector: Mapping[str, Any]) -> str:
    """The selector as client-go prints it in error texts."""

    def requirements(entries: Sequence[Mapping[str, Any]]) -> str:
        return "".join(
            f"NodeSelectorRequirement{{Key:{entry.get('key') or ''},Operator:{entry.get('operator') or ''},"
            f"Values:[{' '.join(entry.get('values') or [])}],}},"
            for entry in entries
        )

    terms = "".join(
        "NodeSelectorTerm{"
        f"MatchExpressions:[]NodeSelectorRequirement{{{requirements(term.get('matchExpressions') or [])}}},"
        f"MatchFields:[]NodeSelectorRequirement{{{requirements(term.get('matchFields') or [])}}},}},"
        for term in selector.get("nodeSelectorTerms") or []
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"
