"""Prepare and unprepare on a fake machine: what is answered, what is left, what survives."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_kit import BDF, NODE, Rig, claim, config, gpu_config, ref, result, uid

from driver.sdk.errors import ClaimError, HardwareError
from driver.sdk.reconciler import Reconciler
from driver.sdk.records import State
from fake_hw.faults import Faults
from node_api.cdi import resolve


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path).restart()
    yield rig
    assert rig.overlaps() == []


def assert_nothing_left(rig: Rig, number: int) -> None:
    assert rig.checkpoint.get(uid(number)) is None
    assert not rig.cdi_file(number).exists()
    assert all(uid(number) not in users for users in rig.configured().values())


def test_prepared_devices_are_answered_with_base_requests_and_resolvable_ids(rig: Rig) -> None:
    answers = rig.prepare(1, result("gpu-0", "gpu/big"), result("gpu-2", "other"))

    assert [(a.device.name, a.device.pool, a.device.requests) for a in answers] == [
        ("gpu-0", NODE, ("gpu",)), ("gpu-2", NODE, ("other",)),
    ]  # fmt: skip
    ids = [identifier for answer in answers for identifier in answer.cdi_ids]
    assert ids == [f"gpu.example.com/gpu={uid(1)}-gpu-0", f"gpu.example.com/gpu={uid(1)}-gpu-2"]
    edits = resolve(ids, [rig.base / "cdi"]).edits
    assert [(node.path, node.major, node.minor) for node in edits.device_nodes if node] == [
        ("/dev/fakegpu0", 240, 0), ("/dev/fakegpu2", 240, 2),
    ]  # fmt: skip
    assert f"GPU_0_PCI_BUS_ID={BDF['gpu-0']}" in edits.env
    assert any(variable.startswith("GPU_0_PRODUCT_NAME=NVIDIA ") for variable in edits.env)
    assert rig.configured() == {"gpu-0": {uid(1)}, "gpu-2": {uid(1)}}


def test_the_cdi_file_has_the_computed_minimum_version_and_is_readable_by_all(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    # A device name with a digit first and hostPath both need 0.5.0 (spec/cdi.md 4).
    assert json.loads(rig.cdi_file(1).read_text())["cdiVersion"] == "0.5.0"
    assert rig.cdi_file(1).stat().st_mode & 0o777 == 0o644


def test_repeated_prepare_answers_the_same_and_configures_once(rig: Rig) -> None:
    first = rig.prepare(1, result("gpu-0"))
    content = rig.cdi_file(1).stat().st_ino
    assert rig.prepare(1) == first
    assert rig.prepare(1) == first
    assert rig.cdi_file(1).stat().st_ino == content
    assert len(rig.events("configure")) == 1


def test_eight_prepares_at_once_answer_the_same_and_configure_once(rig: Rig) -> None:
    rig.claims.add(claim(1, result("gpu-0"), result("gpu-1")))
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(rig.prepare(1))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)
    assert len(rig.events("configure")) == 2
    assert len(rig.cdi_files()) == 1


def test_unprepare_gives_everything_back_and_may_be_repeated(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.unprepare(1)
    assert_nothing_left(rig, 1)
    rig.unprepare(1)
    rig.unprepare(99)
    assert rig.cdi_files() == {}


def test_unprepare_needs_neither_claim_nor_hardware(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.claims.claims.clear()
    Faults(rig.root).vanish(BDF["gpu-0"])
    rig.unprepare(1)
    assert rig.checkpoint.get(uid(1)) is None
    assert rig.cdi_files() == {}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (None, "claim ns/c1 not found"),
        ({**claim(1), "metadata": {"namespace": "ns", "name": "c1", "uid": uid(9)}}, "got replaced"),
        ({**claim(1), "status": {}}, "claim ns/c1 not allocated"),
        (claim(1, result("gpu-9")), "gpu-9 does not exist; in .* are: gpu-0, gpu-1, gpu-2, gpu-3"),
        (claim(1, result("gpu-0") | {"pool": "elsewhere"}), "pool elsewhere, this node's pool is node-1"),
        (claim(1, result("gpu-0"), result("gpu-0", "b")), "allocated twice"),
    ],
)
def test_a_wrong_claim_is_refused_without_a_trace(
    rig: Rig, item: dict[str, object] | None, text: str
) -> None:
    if item:
        rig.claims.claims["c1"] = item
    with pytest.raises(ClaimError, match=text):
        rig.prepare(1)
    assert_nothing_left(rig, 1)
    assert rig.events("configure") == []


def test_results_of_other_drivers_are_left_alone(rig: Rig) -> None:
    foreign = {"driver": "nic.example.com", "pool": NODE, "device": "gpu-1", "request": "nic"}
    answers = rig.prepare(1, result("gpu-0"), foreign)
    assert [answer.device.name for answer in answers] == ["gpu-0"]
    assert rig.configured() == {"gpu-0": {uid(1)}}
    assert rig.prepare(2, foreign) == []


def test_a_device_of_another_claim_is_refused_naming_the_holder(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    before = rig.cdi_file(1).read_bytes()
    with pytest.raises(ClaimError, match=rf"gpu-0 is already prepared for claim ns/c1 \(UID {uid(1)}\)"):
        rig.prepare(2, result("gpu-1"), result("gpu-0"))
    assert_nothing_left(rig, 2)
    assert rig.cdi_file(1).read_bytes() == before
    rig.unprepare(1)
    rig.prepare(2)


def test_admin_access_goes_beside_and_does_not_touch_the_hardware(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    assert len(rig.prepare(2, result("gpu-0", adminAccess=True))) == 1
    assert rig.configured() == {"gpu-0": {uid(1)}}
    rig.unprepare(2)
    assert rig.configured() == {"gpu-0": {uid(1)}}


def test_shares_of_one_device_are_separate_within_and_between_claims(rig: Rig) -> None:
    one, two, three = (f"0000000{n}-aaaa-4aaa-8aaa-aaaaaaaaaaaa" for n in (1, 2, 3))
    answers = rig.prepare(1, result("gpu-0", shareID=one), result("gpu-0", shareID=two))
    assert [answer.device.share_id for answer in answers] == [one, two]
    assert len({answer.cdi_ids for answer in answers}) == 2
    rig.prepare(2, result("gpu-0", shareID=three))
    with pytest.raises(ClaimError, match="already prepared"):
        rig.prepare(3, result("gpu-0", shareID=three))
    with pytest.raises(ClaimError, match="already prepared"):
        rig.prepare(4, result("gpu-0"))
    rig.unprepare(1)
    assert rig.configured() == {"gpu-0": {uid(2)}}


def test_a_failure_on_the_second_device_leaves_nothing_behind(rig: Rig) -> None:
    Faults(rig.root).fail_configure(call=2)
    with pytest.raises(ClaimError, match=BDF["gpu-1"]):
        rig.prepare(1, result("gpu-0"), result("gpu-1"))
    assert_nothing_left(rig, 1)
    rig.unprepare(1)
    rig.prepare(2, result("gpu-0"))


def test_without_config_nothing_in_the_device_is_changed(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    assert [event.settings for event in rig.events("configure")] == [{}]


def test_config_of_a_missing_feature_names_it(rig: Rig) -> None:
    Faults(rig.root).text(f"{BDF['gpu-0']}/gpu/features/mps", b"unsupported\n")
    with pytest.raises(ClaimError, match=r"MPS needs the feature mps, which gpu-0 \(NVIDIA A100 80GB PCIe\)"):
        rig.prepare(1, result("gpu-0"), configs=[config(gpu_config(sharing={"strategy": "MPS"}))])
    assert_nothing_left(rig, 1)


def test_config_reaches_hardware_and_container(rig: Rig) -> None:
    sharing = {"strategy": "TimeSlicing", "interval": "Short"}
    rig.prepare(1, result("gpu-0"), configs=[config(gpu_config(sharing=sharing, env={"MODE": "fast"}))])
    assert [event.settings for event in rig.events("configure")] == [{"timeSlice": "Short"}]
    env = json.loads(rig.cdi_file(1).read_text())["devices"][0]["containerEdits"]["env"]
    assert {"GPU_0_SHARING_STRATEGY=TimeSlicing", "GPU_0_SHARING_INTERVAL=Short", "MODE=fast"} <= set(env)


def test_an_unknown_config_field_is_named_even_when_no_result_matches(rig: Rig) -> None:
    wrong = config(gpu_config(sharing={"stratgy": "None"}), "elsewhere")
    with pytest.raises(ClaimError, match=r"unknown field \"sharing.stratgy\", did you mean 'strategy'"):
        rig.prepare(1, result("gpu-0"), configs=[wrong])
    foreign = config({"anything": 1}, driver="nic.example.com")
    rig.prepare(2, result("gpu-0"), configs=[foreign])


def test_state_survives_a_restart_without_a_prepare(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.cdi_file(1).unlink()
    rig.restart()
    assert rig.cdi_file(1).exists()
    with pytest.raises(ClaimError, match="ns/c1"):
        rig.prepare(2, result("gpu-0"))
    rig.unprepare(1)
    rig.prepare(2)
    assert list(rig.cdi_files()) == [rig.cdi_file(2).name]


def test_a_missing_cdi_file_is_written_again_by_prepare(rig: Rig) -> None:
    first = rig.prepare(1, result("gpu-0"))
    content = rig.cdi_file(1).read_bytes()
    rig.cdi_file(1).unlink()
    assert rig.prepare(1) == first
    assert rig.cdi_file(1).read_bytes() == content


def test_device_numbers_are_looked_up_again_at_start(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.prepare(2, result("gpu-1"))
    Faults(rig.root).renumber({BDF["gpu-0"]: 1, BDF["gpu-1"]: 0})
    rig.restart()

    def node(number: int) -> dict[str, object]:
        return json.loads(rig.cdi_file(number).read_text())["devices"][0]["containerEdits"]["deviceNodes"][0]

    assert (node(1)["minor"], node(1)["path"]) == (1, "/dev/fakegpu1")
    assert (node(2)["minor"], node(2)["path"]) == (0, "/dev/fakegpu0")


def test_leftovers_in_the_cdi_directory_go_at_start_and_foreign_files_stay(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    (rig.base / "cdi" / f".{rig.cdi_file(1).name}.0123abcd.tmp").write_text("{")
    rig.cdi_file(7).write_text("{}")
    (rig.base / "cdi" / "vendor.json").write_text("{}")
    rig.restart()
    assert set(rig.cdi_files()) == {rig.cdi_file(1).name, "vendor.json"}


def test_a_vanished_device_fails_only_its_own_claim_and_names_stay(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    Faults(rig.root).vanish(BDF["gpu-0"])
    rig.restart()
    assert list(rig.inventory.look()) == ["gpu-1", "gpu-2", "gpu-3"]
    assert rig.prepare(2, result("gpu-1"))[0].device.address == BDF["gpu-1"]
    with pytest.raises(ClaimError, match="bring the device back, or delete the pods"):
        rig.prepare(1)
    rig.unprepare(1)
    assert rig.checkpoint.get(uid(1)) is None


def test_a_prepare_that_hangs_does_not_outlive_its_unprepare(rig: Rig) -> None:
    faults = Faults(rig.root)
    faults.block_configure(BDF["gpu-0"])
    rig.claims.add(claim(1, result("gpu-0")))
    problems: list[BaseException] = []

    def run() -> None:
        try:
            rig.prepare(1)
        except ClaimError as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    while not rig.events("configure-blocked"):
        assert thread.is_alive()
    rig.unprepare(1)
    faults.release(BDF["gpu-0"])
    thread.join()
    assert "unprepared while it was being prepared" in str(problems[0])
    assert_nothing_left(rig, 1)
    rig.prepare(2, result("gpu-0"))


def test_hardware_that_was_not_reset_is_reset_before_the_next_claim(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.checkpoint.forget(uid(1))
    rig.prepare(2, result("gpu-0"))
    assert rig.configured() == {"gpu-0": {uid(2)}}


def test_hardware_of_unknown_claims_is_reset_at_start(rig: Rig) -> None:
    rig.profile.configure(BDF["gpu-3"], uid(5), None, shared=False)
    rig.restart()
    assert rig.configured() == {}


def test_hardware_state_lost_by_a_reboot_is_configured_again_by_prepare(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    faults = Faults(rig.root)
    faults.vanish(BDF["gpu-0"])
    faults.bring_back(BDF["gpu-0"])
    assert rig.configured() == {}
    rig.prepare(1)
    assert rig.configured() == {"gpu-0": {uid(1)}}


def test_an_unwritable_cdi_directory_is_an_error_of_the_claim_and_leaves_nothing(rig: Rig) -> None:
    (rig.base / "cdi").rmdir()
    (rig.base / "cdi").write_text("a file in the place of the directory")
    with pytest.raises(ClaimError, match="cannot prepare gpu-0"):
        rig.prepare(1, result("gpu-0"))
    (rig.base / "cdi").unlink()
    assert_nothing_left(rig, 1)


def test_a_defect_of_the_profile_leaves_nothing_either(rig: Rig) -> None:
    def edits(*_: object) -> dict[str, object]:
        raise LookupError("a mistake in the profile")

    rig.profile.edits = edits  # type: ignore[method-assign]
    with pytest.raises(LookupError):
        rig.prepare(1, result("gpu-0"))
    assert_nothing_left(rig, 1)


def test_half_a_character_in_the_environment_is_refused(rig: Rig) -> None:
    with pytest.raises(ClaimError, match=r"env\.MODE: must be a string of Unicode characters"):
        rig.prepare(1, result("gpu-0"), configs=[config(gpu_config(env={"MODE": "\ud800"}))])
    assert_nothing_left(rig, 1)


def test_another_allocation_under_the_same_uid_is_refused(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    with pytest.raises(ClaimError, match="was prepared with gpu-0 and is now allocated gpu-1"):
        rig.prepare(1, result("gpu-1"))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_claim_gone_from_the_api_is_released_at_the_second_look(rig: Rig, replaced: bool) -> None:
    rig.prepare(1, result("gpu-0"))
    rig.prepare(2, result("gpu-1"))
    del rig.claims.claims["c1"]
    if replaced:
        rig.claims.claims["c1"] = {**claim(3), "metadata": {"uid": uid(3)}}
    reconciler = Reconciler(rig.checkpoint, rig.preparer, rig.claims)
    reconciler.look()
    assert rig.checkpoint.get(uid(1)) is not None
    reconciler.look()
    assert_nothing_left(rig, 1)
    entry = rig.checkpoint.get(uid(2))
    assert entry is not None
    assert entry.state is State.PREPARED


def test_a_uid_that_is_no_file_name_is_refused(rig: Rig) -> None:
    strange = ref(1).__class__("ns", "c1", "../../etc/passwd")
    with pytest.raises(ClaimError, match="cannot be used as a UID"):
        rig.preparer.prepare(strange)
    rig.preparer.unprepare(strange)


def test_a_tree_that_is_replaced_is_found_again(rig: Rig) -> None:
    rig.prepare(1, result("gpu-0"))
    away = rig.root.with_name("away")
    rig.root.rename(away)
    with pytest.raises(HardwareError, match="has disappeared"):
        rig.inventory.look()
    with pytest.raises(ClaimError, match="hardware is not there"):
        rig.prepare(1)
    with pytest.raises(ClaimError, match="cannot prepare gpu-1"):
        rig.prepare(2, result("gpu-1"))
    away.rename(rig.root)
    rig.prepare(1)
    rig.prepare(2)
    assert list(rig.inventory.look()) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
