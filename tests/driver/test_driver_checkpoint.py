"""The checkpoint: damage is isolated, kept aside and told; nothing that was prepared is given away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driver_kit import BDF, Rig, claim, ref, result, uid
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.sdk.checkpoint import Checkpoint, Contents, checksum, parse, serialise
from driver.sdk.errors import ClaimError
from driver.sdk.records import ClaimEntry, ClaimRef, PreparedDevice, State
from fake_hw.faults import Faults

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
devices = st.builds(
    PreparedDevice,
    pool=words, name=words, address=words,
    requests=st.lists(words, max_size=2).map(tuple),
    share_id=st.just("") | words,
    admin=st.booleans(),
    settings=st.none() | st.dictionaries(words, words, max_size=2),
)  # fmt: skip
entries = st.builds(
    lambda number, name, state, found: ClaimEntry(ClaimRef("ns", name, uid(number)), state, tuple(found)),
    st.integers(0, 99), words, st.sampled_from(State), st.lists(devices, max_size=3),
)  # fmt: skip
contents = st.builds(
    lambda found, names: Contents({entry.ref.uid: entry for entry in found}, {}, names),
    st.lists(entries, max_size=3), st.dictionaries(words, words, max_size=3),
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(contents)
def test_what_is_written_is_read(wanted: Contents) -> None:
    loaded = parse(serialise(wanted))
    assert loaded.contents == wanted
    assert loaded.damage == ""


@settings(deadline=None, max_examples=50)
@given(contents, st.data())
def test_any_changed_byte_is_noticed_and_never_invents_an_entry(
    wanted: Contents, data: st.DataObject
) -> None:
    text = bytearray(serialise(wanted))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    loaded = parse(bytes(text))
    if not loaded.damage:
        # White space between the values does not matter.
        assert loaded.contents == wanted
    for identifier, entry in loaded.contents.entries.items():
        assert wanted.entries[identifier] == entry


@settings(deadline=None, max_examples=50)
@given(contents, st.data())
def test_a_torn_file_is_noticed(wanted: Contents, data: st.DataObject) -> None:
    text = serialise(wanted).rstrip()
    loaded = parse(text[: data.draw(st.integers(0, len(text) - 1))])
    assert loaded.damage
    assert loaded.contents == Contents(incomplete=True)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"[]", "not a JSON object"),
        (b'{"schemaVersion": 99, "body": {}}', "schemaVersion 99 is newer than this driver's 2"),
        (b'{"schemaVersion": "2", "body": {}}', "schemaVersion is '2'"),
        (b'{"schemaVersion": 2}', "body is not an object"),
        (b"[" * 100_000, ""),
    ],
)
def test_an_unreadable_file_says_why(data: bytes, reason: str) -> None:
    loaded = parse(data)
    assert loaded.contents == Contents(incomplete=True)
    assert reason in loaded.damage


def test_version_1_is_migrated(tmp_path: Path) -> None:
    device = {"pool": "node-1", "name": "gpu-0", "address": BDF["gpu-0"], "requests": ["gpu"]}
    body = {"claims": {uid(1): {"namespace": "ns", "name": "c1", "devices": [device]}}}
    path = tmp_path / "checkpoint.json"
    path.write_text(json.dumps({"schemaVersion": 1, "checksum": checksum(body), "body": body}))
    checkpoint = Checkpoint.load(path)
    assert not checkpoint.contents.incomplete
    entry = checkpoint.get(uid(1))
    assert entry is not None
    assert (entry.state, entry.devices[0].name) == (State.PREPARED, "gpu-0")
    checkpoint.put(entry)
    assert json.loads(path.read_text())["schemaVersion"] == 2
    assert checkpoint.kept_aside() == []


@pytest.fixture
def prepared(tmp_path: Path) -> Rig:
    """gpu-0 is prepared for claim 1, gpu-1 for claim 2; the driver is down."""
    rig = Rig(tmp_path).restart()
    rig.prepare(1, result("gpu-0"))
    rig.prepare(2, result("gpu-1"))
    return rig


def assert_serves_on(rig: Rig) -> None:
    """Both claims keep their devices, can be prepared again and be given back; the file was kept aside."""
    files = [rig.cdi_file(1).read_bytes(), rig.cdi_file(2).read_bytes()]
    rig.restart()
    assert len(rig.checkpoint.kept_aside()) == 1
    for device in ("gpu-0", "gpu-1"):
        with pytest.raises(ClaimError, match=r"already prepared|held by"):
            rig.prepare(3, result(device))
    assert rig.prepare(3, result("gpu-2"))
    assert [rig.cdi_file(1).read_bytes(), rig.cdi_file(2).read_bytes()] == files
    assert rig.prepare(2)[0].device.requests == ("gpu",)
    rig.unprepare(1)
    rig.unprepare(2)
    assert rig.configured() == {"gpu-2": {uid(3)}}
    assert rig.overlaps() == []


@pytest.mark.parametrize("damage", [b"", b"{", b"\0" * 100, b'{"schemaVersion": 3, "body": {}}'])
def test_a_lost_checkpoint_is_rebuilt_from_the_hardware(prepared: Rig, damage: bytes) -> None:
    prepared.checkpoint_file.write_bytes(damage)
    assert_serves_on(prepared)


def test_a_damaged_entry_is_isolated(prepared: Rig) -> None:
    text = prepared.checkpoint_file.read_text()
    # The entry of claim 1: its name occurs once.
    prepared.checkpoint_file.write_text(text.replace('"name": "c1"', '"name": "cX"'))
    prepared.restart()
    assert list(prepared.checkpoint.contents.quarantined) == [uid(1)]
    with pytest.raises(ClaimError, match=r"record of claim ns/c1 was damaged .* delete the pods"):
        prepared.preparer.prepare(ref(1))
    assert_serves_on(prepared)


def test_a_damaged_uid_does_not_free_the_device(prepared: Rig) -> None:
    text = prepared.checkpoint_file.read_text()
    prepared.checkpoint_file.write_text(text.replace(f'"{uid(1)}": {{', f'"{uid(9)}": {{'))
    assert_serves_on(prepared)


def test_the_same_damage_is_kept_once(prepared: Rig) -> None:
    prepared.checkpoint_file.write_bytes(b"damaged")
    for _ in range(2):
        # As if the process had died between keeping it aside and its first change.
        checkpoint = Checkpoint.load(prepared.checkpoint_file)
    assert len(checkpoint.kept_aside()) == 1


def test_a_lost_checkpoint_waits_for_hardware_that_cannot_be_read(prepared: Rig) -> None:
    prepared.checkpoint_file.write_bytes(b"damaged")
    away = prepared.base / "away"
    prepared.root.rename(away)
    prepared.restart()
    assert len(prepared.cdi_files()) == 2, "the files of lost claims are not leftovers"
    # Neither a new name nor another start may hide that something is missing.
    prepared.checkpoint.name_devices({"0000:00:00.0": "gpu-9"})
    prepared.restart()
    with pytest.raises(
        ClaimError, match=r"does not know what claim ns/c1 has: its checkpoint was damaged, and"
    ):
        prepared.unprepare(1)
    away.rename(prepared.root)
    prepared.preparer.unfinished()
    assert prepared.configured() == {"gpu-0": {uid(1)}, "gpu-1": {uid(2)}}
    with pytest.raises(ClaimError, match="already prepared"):
        prepared.prepare(3, result("gpu-0"))
    prepared.unprepare(1)
    prepared.prepare(3, result("gpu-0"))
    assert prepared.overlaps() == []


def test_a_recovered_claim_keeps_its_devices_when_it_cannot_be_prepared_again(prepared: Rig) -> None:
    prepared.checkpoint_file.write_bytes(b"damaged")
    prepared.restart()
    recovered = prepared.checkpoint.get(uid(1))
    Faults(prepared.root).fail_configure(BDF["gpu-3"])
    with pytest.raises(ClaimError, match="injected fault"):
        prepared.prepare(1, result("gpu-0"), result("gpu-2"), result("gpu-3"))
    assert prepared.checkpoint.get(uid(1)) == recovered
    assert prepared.configured() == {"gpu-0": {uid(1)}, "gpu-1": {uid(2)}}
    prepared.claims.add(claim(3, result("gpu-0")))
    with pytest.raises(ClaimError, match="already prepared"):
        prepared.preparer.prepare(ref(3))
    Faults(prepared.root).heal()
    assert [answer.device.name for answer in prepared.prepare(1)] == ["gpu-0", "gpu-2", "gpu-3"]


def test_a_device_of_a_damaged_claim_is_not_shared(prepared: Rig) -> None:
    text = prepared.checkpoint_file.read_text()
    prepared.checkpoint_file.write_text(text.replace('"name": "c1"', '"name": "cX"'))
    prepared.restart()
    with pytest.raises(ClaimError, match="held by claim UID"):
        prepared.prepare(3, result("gpu-0", shareID="0c0ffee0-aaaa-4aaa-8aaa-aaaaaaaaaaaa"))
    assert prepared.overlaps() == []
    assert prepared.prepare(3, result("gpu-0", adminAccess=True))
