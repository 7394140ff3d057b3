"""What every backend of the ledger does, step by step, with expected answers by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from allocator.ledger import (
    Answer,
    Caller,
    ClaimKey,
    Conflict,
    Fact,
    Holding,
    Ledger,
    LedgerLostError,
    State,
    Wish,
)

A, B = Caller("L", "a#1", 0), Caller("L", "b#1", 0)


def claim(name: str) -> ClaimKey:
    return ClaimKey("ns", name, f"uid-{name}")


def wish(name: str, takes: str = "", joins: str = "") -> Wish:
    return Wish(claim(name), Holding(tuple(takes.split()), tuple(joins.split()), f'["{name}"]'))


def states(answer: Answer) -> dict[str, State]:
    return {entry.claim.name: entry.state for entry in answer.delta.changed}


async def check_contract(make: Callable[[], Ledger]) -> None:
    """`make` gives an empty ledger each time."""
    checks = (
        filling, exclusive_names, joined_names, several_at_once, tokens, replacing, late_requests, expiry, facts_win,
        late_facts, facts_without_allocation, facts_with_a_reservation, changes,
    )  # fmt: skip
    for check in checks:
        ledger = make()
        try:
            await check(ledger)
        finally:
            await ledger.close()


async def filled(ledger: Ledger) -> None:
    await ledger.open("L")
    await ledger.fill(A)


async def filling(ledger: Ledger) -> None:
    assert await ledger.open("L") == ("L", False)
    assert await ledger.open("M") == ("L", False)
    with pytest.raises(LedgerLostError):
        await ledger.reserve(A, 0, [wish("x", "d")])
    await ledger.settle(A, [Fact(claim("x"), 7, Holding(("d",)))])
    await ledger.fill(A)
    assert await ledger.open("M") == ("L", True)
    assert states(await ledger.read(B)) == {"x": State.COMMITTED}
    with pytest.raises(LedgerLostError):
        await ledger.read(Caller("other", "a#1", 0))


async def exclusive_names(ledger: Ledger) -> None:
    await filled(ledger)
    first = await ledger.reserve(A, 0, [wish("x", "d e")])
    assert first.token
    refused = await ledger.reserve(B, first.delta.until, [wish("y", "e")])
    assert (refused.token, refused.conflicts) == (0, (Conflict("e", "uid-x"),))
    assert states(refused) == {"x": State.RESERVED}
    joining = await ledger.reserve(B, first.delta.until, [wish("y", "", "e")])
    assert joining.conflicts == (Conflict("e", "uid-x"),)
    await ledger.release(A, {"uid-x": first.token})
    assert (await ledger.reserve(B, 0, [wish("y", "e")])).token


async def joined_names(ledger: Ledger) -> None:
    await filled(ledger)
    start = (await ledger.read(A)).delta.until
    first = await ledger.reserve(A, start, [wish("x", "s1", "p")])
    own = await ledger.reserve(A, start, [wish("w", "s2", "p")])
    assert first.token and own.token, "what a session has reserved itself, it knows"
    unaware = await ledger.reserve(B, start, [wish("y", "s3", "p")])
    assert unaware.conflicts[0].name == "p"
    taking = await ledger.reserve(B, own.delta.until, [wish("y", "p")])
    assert taking.conflicts[0].name == "p"
    aware = await ledger.reserve(B, unaware.delta.until, [wish("y", "s3", "p")])
    assert aware.token
    outdated = await ledger.reserve(A, own.delta.until, [wish("v", "s4", "p")])
    assert outdated.conflicts[0].name == "p"
    # Giving back is nothing that a plan has to know.
    gone = await ledger.reserve(B, aware.delta.until, [wish("t", "s5", "p")])
    await ledger.release(B, {"uid-t": gone.token})
    after = await ledger.reserve(A, gone.delta.until, [wish("v", "s4", "p")])
    assert after.token
    earlier = await ledger.reserve(A, own.delta.until, [wish("u", "s6", "p")])
    assert earlier.conflicts[0].name == "p", (
        "what a session has reserved since does not hide what others have"
    )


async def several_at_once(ledger: Ledger) -> None:
    await filled(ledger)
    await ledger.reserve(A, 0, [wish("x", "d")])
    refused = await ledger.reserve(B, 0, [wish("y", "e"), wish("z", "d")])
    assert refused.conflicts == (Conflict("d", "uid-x"),)
    assert states(await ledger.read(B)) == {"x": State.RESERVED}
    twice = await ledger.reserve(B, 0, [wish("y", "e"), wish("z", "e")])
    assert twice.conflicts == (Conflict("e", "uid-y"),)
    assert (await ledger.reserve(B, 0, [wish("y", "e"), wish("z", "f")])).token


async def tokens(ledger: Ledger) -> None:
    await filled(ledger)
    first = (await ledger.reserve(A, 0, [wish("x", "d")])).token
    assert (await ledger.confirm(A, {"uid-x": first})).unknown == ()
    assert (await ledger.confirm(A, {"uid-x": first + 1, "uid-q": 1})).unknown != ()
    await ledger.release(A, {"uid-x": first + 1})
    assert (await ledger.confirm(A, {"uid-x": first})).unknown == ()
    await ledger.release(A, {"uid-x": first})
    second = (await ledger.reserve(A, 0, [wish("x", "d")])).token
    assert second > first
    assert (await ledger.commit(A, {"uid-x": (first, 5)})).unknown == ("uid-x",)
    done = await ledger.commit(A, {"uid-x": (second, 5)})
    assert (done.unknown, states(done)) == ((), {"x": State.COMMITTED})
    assert (await ledger.commit(A, {"uid-x": (second, 5)})).unknown == (), "asked for twice"
    await ledger.release(A, {"uid-x": second})
    assert states(await ledger.read(A)) == {"x": State.COMMITTED}, "what is in the API is not given back"
    assert (await ledger.confirm(A, {"uid-x": second})).unknown == ("uid-x",)


async def replacing(ledger: Ledger) -> None:
    await filled(ledger)
    first = await ledger.reserve(A, 0, [wish("x", "d")])
    assert (await ledger.reserve(B, 0, [wish("x", "e")])).conflicts == (Conflict("", "uid-x"),)
    again = await ledger.reserve(A, 0, [wish("x", "e")])
    assert again.token > first.token
    assert (await ledger.reserve(B, 0, [wish("y", "d")])).token, "the first one holds nothing any more"
    assert (await ledger.reserve(B, 0, [wish("z", "e")])).conflicts == (Conflict("e", "uid-x"),)


async def late_requests(ledger: Ledger) -> None:
    await filled(ledger)

    def one(device: str) -> list[Wish]:
        return [Wish(claim("x"), Holding((device,), (), device))]

    start = (await ledger.read(A)).delta.until
    first = await ledger.reserve(A, start, one("d"))
    again = await ledger.reserve(A, start, one("d"))
    assert again.token > first.token, "whoever has heard no answer asks again"
    assert (await ledger.reserve(A, again.delta.until, one("e"))).conflicts == (Conflict("", "uid-x"),)
    await ledger.release(A, {"uid-x": again.token})
    other = await ledger.reserve(A, again.delta.until, one("e"))
    assert other.token
    late = await ledger.reserve(A, start, one("d"))
    assert late.conflicts == (Conflict("", "uid-x"),), "it was sent before the other was reserved"
    assert (await ledger.confirm(A, {"uid-x": other.token})).unknown == ()


async def late_facts(ledger: Ledger) -> None:
    await filled(ledger)
    planned = Wish(claim("x"), Holding(("d",)), version=9)
    token = (await ledger.reserve(A, 0, [planned])).token
    await ledger.settle(B, [Fact(claim("x"), 8, Holding(("e",)))])
    assert (await ledger.confirm(A, {"uid-x": token})).unknown == (), "that had been taken back by then"
    assert (await ledger.reserve(B, 0, [wish("y", "d")])).conflicts
    answer = await ledger.settle(B, [Fact(claim("x"), 10, Holding(("e",)))])
    assert states(answer) == {"x": State.COMMITTED}
    assert (await ledger.reserve(B, 0, [wish("y", "d")])).token


async def expiry(ledger: Ledger) -> None:
    await filled(ledger)
    token = (await ledger.reserve(A, 0, [wish("x", "d")])).token
    mine = (await ledger.reserve(B, 0, [wish("y", "e")])).token
    assert states(await ledger.expire(B, 100)) == {"x": State.RESERVED, "y": State.RESERVED}
    assert states(await ledger.expire(Caller("L", "a#2", 0), 100))["x"] is State.EXPIRING, (
        "of an earlier session"
    )
    assert (await ledger.confirm(A, {"uid-x": token})).unknown == ("uid-x",)
    assert (await ledger.reserve(A, 0, [wish("x", "d")])).conflicts, "it may still be written"
    assert (await ledger.reserve(B, 0, [wish("z", "d")])).conflicts, "its devices stay taken"
    assert states(await ledger.expire(A, 0))["y"] is State.EXPIRING, "whoever's it is"
    assert (await ledger.commit(A, {"uid-x": (token, 5)})).unknown == (), "it had been written"
    await ledger.settle(B, [Fact(claim("y"), 9, token=mine - 1)])
    assert states(await ledger.read(A))["y"] is State.EXPIRING, "an earlier reservation was fenced off"
    await ledger.settle(B, [Fact(claim("y"), 9, token=mine)])
    assert states(await ledger.read(A)) == {"x": State.COMMITTED}


async def facts_win(ledger: Ledger) -> None:
    await filled(ledger)
    token = (await ledger.reserve(A, 0, [wish("x", "d e")])).token
    answer = await ledger.settle(B, [Fact(claim("y"), 9, Holding(("d",)))])
    assert states(answer) == {"x": State.EXPIRING, "y": State.COMMITTED}
    assert (await ledger.confirm(A, {"uid-x": token})).unknown == ("uid-x",)
    assert (await ledger.reserve(B, 0, [wish("z", "e")])).conflicts == (Conflict("e", "uid-x"),)
    older = await ledger.settle(B, [Fact(claim("y"), 8, Holding(("f",)))])
    assert [entry.holding.takes for entry in older.delta.changed if entry.claim.name == "y"] == [("d",)]
    newer = await ledger.settle(B, [Fact(claim("y"), 10, Holding(("f",)))])
    assert [entry.holding.takes for entry in newer.delta.changed if entry.claim.name == "y"] == [("f",)]


async def facts_without_allocation(ledger: Ledger) -> None:
    await filled(ledger)
    token = (await ledger.reserve(A, 0, [wish("x", "d")])).token
    assert states(await ledger.settle(A, [Fact(claim("x"), 9)])) == {"x": State.RESERVED}, "not written yet"
    await ledger.commit(A, {"uid-x": (token, 10)})
    assert states(await ledger.settle(A, [Fact(claim("x"), 9)])) == {"x": State.COMMITTED}, "not written then"
    answer = await ledger.settle(A, [Fact(claim("x"), 11)])
    assert (states(answer), answer.delta.removed) == ({}, ("uid-x",))
    await ledger.reserve(A, 0, [wish("x", "d")])
    assert (await ledger.settle(A, [Fact(claim("x"), 0, gone=True)])).delta.removed == ("uid-x",)


async def facts_with_a_reservation(ledger: Ledger) -> None:
    await filled(ledger)
    token = (await ledger.reserve(A, 0, [wish("x", "d")])).token
    await ledger.commit(A, {"uid-x": (token, 10)})
    assert (await ledger.reserve(B, 0, [wish("y", "d")])).conflicts
    assert (await ledger.reserve(B, 0, [wish("y", "d")], [Fact(claim("x"), 11)])).token


async def changes(ledger: Ledger) -> None:
    await filled(ledger)
    first = await ledger.reserve(A, 0, [wish("x", "d")])
    second = await ledger.reserve(A._replace(since=first.delta.until), 0, [wish("y", "e", "p")])
    assert states(second) == {"y": State.RESERVED}
    entry = second.delta.changed[0]
    assert entry.holding == Holding(("e",), ("p",), '["y"]')
    assert (entry.claim, entry.session, entry.token) == (claim("y"), "a#1", second.token)
    third = await ledger.release(A._replace(since=second.delta.until), {"uid-x": first.token})
    assert (states(third), third.delta.removed, third.delta.whole) == ({}, ("uid-x",), False)
    nothing = await ledger.read(A._replace(since=third.delta.until))
    assert (nothing.delta.changed, nothing.delta.removed) == ((), ())


async def check_forgetting(ledger: Ledger) -> None:
    """Of a ledger that remembers three removals."""
    await filled(ledger)
    start = (await ledger.read(A)).delta.until
    last = start
    for number in range(5):
        granted = await ledger.reserve(A, 0, [wish(f"x{number}", f"d{number}")])
        last = (await ledger.release(A, {f"uid-x{number}": granted.token})).delta.until
    kept = await ledger.reserve(A, 0, [wish("y", "e")])
    assert kept.token
    far, near = await ledger.read(A._replace(since=start)), await ledger.read(A._replace(since=last - 1))
    assert (far.delta.whole, states(far)) == (True, {"y": State.RESERVED})
    assert (near.delta.whole, near.delta.removed) == (False, ("uid-x4",))
