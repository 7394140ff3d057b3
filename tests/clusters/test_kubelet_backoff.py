from __future__ import annotations

from clusters.embedded.kubelet.pods.restarts import Backoff


def test_the_waiting_time_doubles_up_to_the_maximum_and_starts_anew_after_a_quiet_time() -> None:
    backoff = Backoff(300.0)
    now, delays = 1000.0, []
    for _ in range(7):
        backoff.next("uid/c", now, now)
        delays.append(backoff.delay("uid/c"))
        now += delays[-1]
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    # Quiet for more than 2 * 300 s since the last restart, which was 300 s ago.
    backoff.next("uid/c", now + 301, now + 301)
    assert backoff.delay("uid/c") == 10


def test_what_has_been_quiet_for_long_is_not_remembered() -> None:
    backoff = Backoff(300.0)
    for number in range(1000):
        # One container of a Pod of its own each second.
        backoff.next(f"uid-{number}/c", number, number)
    # At the latest 300 s after its 600 s an entry is swept.
    assert len(backoff) <= 901
    backoff.next("uid/c", 5000.0, 5000.0)
    assert len(backoff) == 1
