"""Claims from the informer and from the scheduler's own writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduler.dynamic_resources.assume_cache import AssumeCache

Object = dict[str, Any]


def claim(version: int) -> Object:
    return {"metadata": {"namespace": "default", "name": "c", "resourceVersion": str(version)}}


def versions(cache: AssumeCache) -> int:
    found = cache.get("default", "c")
    return int(found["metadata"]["resourceVersion"]) if found else 0


def test_an_own_write_is_newer_than_the_informer_until_that_follows() -> None:
    cache = AssumeCache()
    told: list[tuple[Any, Any]] = []
    cache.add_handler(lambda old, new: told.append((old, new)))
    first, written = claim(1), claim(3)
    assert not cache.assume(written)
    cache.inform(None, first)
    assert cache.assume(written)
    cache.inform(first, claim(2))
    cache.inform(claim(2), claim(3))
    assert cache.get("default", "c") is written
    assert told == [(None, first), (first, written)]
    cache.inform(claim(3), None)
    assert told[-1] == (written, None)
    assert versions(cache) == 0


def test_going_back_means_to_what_the_informer_said_last() -> None:
    cache = AssumeCache()
    cache.inform(None, claim(1))
    cache.assume(claim(3))
    cache.restore("default", "c")
    assert versions(cache) == 1
    cache.assume(claim(3))
    # The event of the own write says nothing new, but it is known now.
    cache.inform(claim(1), claim(3))
    cache.restore("default", "c")
    assert versions(cache) == 3


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=30))
def test_versions_never_go_back_without_a_restore(steps: list[tuple[bool, int]]) -> None:
    cache = AssumeCache()
    cache.inform(None, claim(1))
    last = 1
    for own, version in steps:
        if own:
            cache.assume(claim(version))
        else:
            cache.inform(claim(last), claim(version))
        assert versions(cache) == max(last, version)
        last = versions(cache)
