"""Any sequence of prepares, unprepares, restarts and hardware faults against a model of what must then be true."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from driver_kit import BDF, Rig, claim, result, uid
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from driver.sdk.errors import ClaimError
from fake_hw.faults import Faults

CLAIMS = st.integers(1, 4)
DEVICES = st.sampled_from(sorted(BDF))
ONE, TWO = (f"{letter * 8}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for letter in "ab")
SHARES: dict[str, dict[str, str]] = {"": {}, "s1": {"shareID": ONE}, "s2": {"shareID": TWO}}
WANTED = st.dictionaries(DEVICES, st.sampled_from(["", "", "s1", "s2", "admin"]), min_size=1, max_size=2)


class Lifecycle(RuleBasedStateMachine):
    """`model`: claim number -> device -> how it has it (exclusive "", a share, "admin")."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="lifecycle")
        self.rig = Rig(Path(self._directory.name)).restart()
        self.faults = Faults(self.rig.root)
        self.model: dict[int, dict[str, str]] = {}
        self.absent: set[str] = set()

    def teardown(self) -> None:
        assert self.rig.overlaps() == []
        self._directory.cleanup()

    def _conflict(self, number: int, wanted: dict[str, str]) -> bool:
        return any(
            other != number and device in held and not compatible(how, held[device])
            for other, held in self.model.items()
            for device, how in wanted.items()
        )

    def _results(self, wanted: dict[str, str]) -> list[dict[str, object]]:
        return [
            result(device, adminAccess=True) if how == "admin" else result(device, **SHARES[how])
            for device, how in wanted.items()
        ]

    @rule(number=CLAIMS, wanted=WANTED)
    def prepare(self, number: int, wanted: dict[str, str]) -> None:
        if number in self.model:
            # The allocation of a claim does not change.
            wanted = self.model[number]
        self.rig.claims.add(claim(number, *self._results(wanted)))
        if self._conflict(number, wanted) or self.absent & set(wanted):
            with pytest.raises(ClaimError):
                self.rig.prepare(number)
            return
        answers = self.rig.prepare(number)
        assert [answer.device.name for answer in answers] == list(wanted)
        self.model[number] = wanted

    @rule(number=CLAIMS, wanted=WANTED)
    def prepare_on_failing_hardware(self, number: int, wanted: dict[str, str]) -> None:
        if number in self.model or self._conflict(number, wanted) or self.absent & set(wanted):
            return
        used = [device for device, how in wanted.items() if how != "admin"]
        if not used:
            return
        self.faults.fail_configure(call=len(used))
        self.rig.claims.add(claim(number, *self._results(wanted)))
        with pytest.raises(ClaimError, match="injected fault"):
            self.rig.prepare(number)

    @rule(number=CLAIMS)
    def unprepare(self, number: int) -> None:
        self.rig.unprepare(number)
        self.model.pop(number, None)

    @rule()
    def restart(self) -> None:
        self.rig.restart()

    @rule(number=CLAIMS)
    def lose_the_cdi_file_and_restart(self, number: int) -> None:
        self.rig.cdi_file(number).unlink(missing_ok=True)
        if number in self.model and self.absent & set(self.model[number]):
            # It cannot be written again while a device is absent.
            self.rig.unprepare(number)
            del self.model[number]
        self.rig.restart()

    @rule(device=DEVICES)
    def vanish(self, device: str) -> None:
        self.faults.vanish(BDF[device])
        self.absent.add(device)

    @rule()
    def come_back(self) -> None:
        self.faults.heal()
        self.absent.clear()

    @invariant()
    def memory_and_cdi_files_are_the_model(self) -> None:
        assert set(self.rig.checkpoint.contents.entries) == {uid(number) for number in self.model}
        assert set(self.rig.cdi_files()) == {self.rig.cdi_file(number).name for number in self.model}

    @invariant()
    def hardware_serves_only_claims_of_the_model(self) -> None:
        for device, users in self.rig.configured().items():
            assert users <= {
                uid(number) for number, held in self.model.items() if held.get(device, "admin") != "admin"
            }


def compatible(first: str, second: str) -> bool:
    """Whether two claims may have one device in these ways."""
    if "admin" in (first, second):
        return True
    return bool(first and second and first != second)


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=20, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
