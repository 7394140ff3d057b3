from __future__ import annotations

import pytest

from conformance.model import Failed
from conformance.waiting import heeding, poll


class Machine:
    """Time in which a look takes `look` seconds, and a pause `slow` times what was asked for."""

    def __init__(self, look: float, slow: float = 1.0) -> None:
        self.now, self.look, self.slow = 100.0, look, slow

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds * self.slow

    def wait(self, timeout: float, happens: float = float("inf")) -> float:
        """Seconds until it was seen, or the wait was given up."""

        def probe() -> bool:
            self.now += self.look
            return self.now - 100.0 >= happens

        try:
            poll(probe, timeout, "it", clock=self.clock, pause=self.pause)
        except Failed:
            return -(self.now - 100.0)
        return self.now - 100.0


def test_the_answer_of_the_first_look_that_sees_it_is_given() -> None:
    answers = iter([None, "", "there"])
    assert poll(lambda: next(answers), 5.0, "it", pause=lambda seconds: None) == "there"


def test_a_machine_with_time_waits_as_long_as_is_said() -> None:
    given_up = -Machine(0.01).wait(10.0)
    assert 10.0 <= given_up < 10.6


def test_time_that_a_busy_machine_does_not_give_is_not_counted() -> None:
    # It comes after 20 s in which the machine did as much as usually in 5.
    assert Machine(0.5, slow=4.0).wait(10.0, happens=20.0) >= 20.0


def test_time_in_which_the_subject_gets_no_processor_is_not_counted() -> None:
    half = Machine(0.01)
    with heeding(lambda: half.now / 2):
        given_up = -half.wait(10.0)
    assert 19.0 <= given_up < 21.0
    # Several threads together starve for longer than there is time.
    always = Machine(0.01)
    with heeding(lambda: always.now * 2):
        given_up = -always.wait(10.0)
    assert 30.0 <= given_up < 31.0
    assert -Machine(0.01).wait(10.0) < 10.6


def test_a_wait_ends_on_the_slowest_machine() -> None:
    given_up = -Machine(5.0, slow=10.0).wait(10.0)
    assert 30.0 <= given_up < 40.0


def test_what_was_expected_and_seen_is_told() -> None:
    with pytest.raises(Failed) as error:
        poll(lambda: None, 0.01, "a device", lambda: "no device", pause=lambda seconds: None)
    assert (error.value.expected, error.value.seen) == ("a device within 0.01 s", "no device")
