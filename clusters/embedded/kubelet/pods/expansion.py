"""References to variables in texts: `$(NAME)`, and `$$` for a dollar sign."""

from __future__ import annotations

from collections.abc import Mapping


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """Replace references by the value in the first scope that has the name; others stay as they are."""
    parts: list[str] = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        parts.append(text[position:dollar])
        following = text[dollar + 1]
        position = dollar + 2
        if following == "$":
            parts.append("$")
        elif following == "(":
            end = text.find(")", position)
            if end < 0:
                parts.append("$(")
                continue
            name = text[position:end]
            found = next((scope[name] for scope in scopes if name in scope), None)
            parts.append(f"$({name})" if found is None else found)
            position = end + 1
        else:
            parts.append(f"${following}")
    return "".join(parts) + text[position:]
