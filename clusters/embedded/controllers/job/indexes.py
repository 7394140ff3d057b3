"""Completion indexes of Indexed Jobs. No input or output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from clusters.embedded.controllers.pods import annotations_of

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_GENERATED_LIMIT: Final = 58


def is_indexed(job: Mapping[str, Any]) -> bool:
    """Whether each Pod of the Job has an index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Mapping[str, Any]) -> int | None:
    """The index of a Pod; None when it has none that makes sense."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def valid_index(pod: Mapping[str, Any], job: Mapping[str, Any]) -> int | None:
    """The index of a Pod; None also when it is beyond the Job's completions."""
    index = index_of(pod)
    return index if index is not None and index < job["spec"]["completions"] else None


def indexes_of(pods: Iterable[Mapping[str, Any]]) -> set[int]:
    """The indexes of all Pods that have one."""
    return {index for index in map(index_of, pods) if index is not None}


def parse_indexes(text: str, completions: int) -> set[int]:
    """The indexes of a text such as `1,3-5`, below `completions`; parts that are no numbers are left out."""
    found: set[int] = set()
    for part in text.split(",") if text else []:
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            continue
        found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def format_indexes(indexes: Collection[int]) -> str:
    """The text of indexes: runs of three and more as `3-5`."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), None]:
        if index is not None and run and index == run[-1] + 1:
            run.append(index)
            continue
        if run:
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run]
        run = [index] if index is not None else []
    return ",".join(parts)


def first_free(count: int, completions: int, taken: Collection[int]) -> list[int]:
    """The lowest `count` indexes that are not taken."""
    found: list[int] = []
    for index in range(completions):
        if len(found) >= count:
            break
        if index not in taken:
            found.append(index)
    return found


def generate_name(job_name: str, index: int) -> str:
    """The prefix of a Pod's name, shortened so that the random part fits."""
    suffix = f"-{index}-"
    return job_name[: _GENERATED_LIMIT - len(suffix)] + suffix


def success_rule(job: Mapping[str, Any], succeeded: Collection[int]) -> int | None:
    """The first rule of the success policy that is met, as its position; None when none is."""
    policy = job["spec"].get("successPolicy")
    if not policy or not succeeded:
        return None
    for position, rule in enumerate(policy.get("rules") or []):
        needed = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = parse_indexes(rule["succeededIndexes"], job["spec"]["completions"])
            reached = len(required.intersection(succeeded))
            if required and (reached == len(required) or (needed is not None and reached >= needed)):
                return position
        elif needed is not None and len(succeeded) >= needed:
            return position
    return None
