"""Logs of containers: written in the CRI format, read with the options of kubectl logs."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from container_kit import PATIENCE, StillClock
from hypothesis import given
from hypothesis import strategies as st

from clusters.containers.log_reader import LogOptions, parse_line, read_logs, since, tail_start
from clusters.containers.logs import MAX_LINE, LogWriter, format_time

T0 = 1_700_000_000
"""2023-11-14T22:13:20Z."""


def written(path: Path, *texts: str, step: float = 1.0) -> None:
    """A log with the texts, each a step after the one before."""
    clock = StillClock()
    writer = LogWriter(path, clock)
    for text in texts:
        writer.stdout(text)
        clock.advance(step)
    writer.close()


def read(path: Path, **options: object) -> bytes:
    """The log as the kubelet answers it."""

    async def go() -> bytes:
        return b"".join([piece async for piece in read_logs(path, LogOptions(**options))])  # type: ignore[arg-type]

    return asyncio.run(go())


def test_lines_have_time_stream_and_tag(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "c" / "0.log"
    clock = StillClock()
    writer = LogWriter(path, clock)
    writer.stdout("one\ntw")
    writer.stderr("err\r\n")
    clock.advance(0.25)
    writer.stdout("o\nrest")
    writer.close()
    writer.stdout("dropped\n")
    assert path.read_text() == (
        "2023-11-14T22:13:20Z stdout F one\n"
        # The clock stands still, and yet later lines are later.
        "2023-11-14T22:13:20.000000001Z stderr F err\n"
        "2023-11-14T22:13:20.25Z stdout F two\n"
        "2023-11-14T22:13:20.250000001Z stdout P rest\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_long_lines_are_cut_and_come_out_whole(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    text = "x" * (2 * MAX_LINE + 5)
    written(path, text + "\n", "end\n")
    tags = [line.split(" ")[2] for line in path.read_text().splitlines()]
    assert tags == ["P", "P", "F", "F"]
    assert read(path) == (text + "\nend\n").encode()


def test_no_path_discards_what_is_written() -> None:
    writer = LogWriter(None, StillClock())
    writer.stdout("x\n")
    writer.close()


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
    ],
)
def test_times_are_written_as_go_does(nanoseconds: int, text: str) -> None:
    assert format_time(nanoseconds) == text


@pytest.mark.parametrize(
    ("lines", "out"), [(None, b"a\nb\nc\n"), (0, b""), (1, b"c\n"), (2, b"b\nc\n"), (9, b"a\nb\nc\n")]
)
def test_tail(tmp_path: Path, lines: int | None, out: bytes) -> None:
    written(tmp_path / "l", "a\n", "b\n", "c\n")
    assert read(tmp_path / "l", tail=lines) == out


def test_tail_of_a_log_longer_than_a_block(tmp_path: Path) -> None:
    # 5000 lines of about 50 bytes are some 250 KB, four blocks.
    written(tmp_path / "l", "".join(f"line {number}\n" for number in range(5000)))
    assert read(tmp_path / "l", tail=3000) == "".join(f"line {n}\n" for n in range(2000, 5000)).encode()


def test_since_limits_and_timestamps(tmp_path: Path) -> None:
    written(tmp_path / "l", "a\n", "b\n", "c\n")
    assert read(tmp_path / "l", since=T0 + 1.0) == b"b\nc\n"
    assert read(tmp_path / "l", since=T0 + 1.0, timestamps=True, tail=2) == (
        b"2023-11-14T22:13:21.000000000Z b\n2023-11-14T22:13:22.000000000Z c\n"
    )
    assert read(tmp_path / "l", limit_bytes=3) == b"a\nb"
    assert read(tmp_path / "l", limit_bytes=0) == b""
    # 30 characters of time and a blank, then 1 of the text.
    assert read(tmp_path / "l", limit_bytes=32, timestamps=True) == b"2023-11-14T22:13:20.000000000Z a"


def test_one_time_stands_before_a_line_of_several_parts(tmp_path: Path) -> None:
    written(tmp_path / "l", "x" * (MAX_LINE + 1) + "\n")
    assert read(tmp_path / "l", timestamps=True).count(b"2023-") == 1


def test_the_later_of_two_starts_counts() -> None:
    assert since(None, None, 100) is None
    assert since(30, 60.0, 100) == 70
    assert since(30, 80.0, 100) == 80


def test_one_stream_alone(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "l", StillClock())
    writer.stdout("o\n")
    writer.stderr("e\n")
    writer.close()
    assert read(tmp_path / "l", stream="stderr") == b"e\n"


def test_following_ends_after_the_last_line_of_an_ended_container(tmp_path: Path) -> None:
    async def go() -> None:
        clock = StillClock()
        writer = LogWriter(tmp_path / "l", clock)
        writer.stdout("first\nold\n")
        alive = True
        pieces: list[bytes] = []
        seen = asyncio.Event()

        async def follow() -> None:
            async for piece in read_logs(tmp_path / "l", LogOptions(follow=True, tail=1), lambda: alive):
                pieces.append(piece)
                seen.set()

        task = asyncio.create_task(follow())
        await asyncio.wait_for(seen.wait(), PATIENCE)
        assert pieces == [b"old\n"]
        seen.clear()
        writer.stdout("new\n")
        await asyncio.wait_for(seen.wait(), PATIENCE)
        writer.stdout("last")
        writer.close()
        alive = False
        await asyncio.wait_for(task, PATIENCE)
        assert b"".join(pieces) == b"old\nnew\nlast"

    asyncio.run(go())


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x\n",
        b"2023-11-14T22:13:20Z stdout\n",
        b"yesterday stdout F x\n",
        b"2023-11-14T22:13:20Z std F x\n",
    ],
)
def test_lines_in_another_format_are_skipped(line: bytes) -> None:
    assert parse_line(line) is None


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=30), max_size=8
    )
)
def test_text_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("log") / "l"
    text = "".join(f"{line}\n" for line in lines)
    written(path, *[text[index : index + 7] for index in range(0, len(text), 7)])
    assert read(path) == text.encode()


@given(st.binary(max_size=200).map(lambda data: data.replace(b"x", b"\n")), st.integers(0, 6))
def test_the_tail_starts_after_a_line_end(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, lines: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "l"
    path.write_bytes(data)
    with path.open("rb") as file:
        start = tail_start(file, lines)
    pieces = data.split(b"\n")
    ends = [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
    assert data[start:] == b"".join(ends[max(0, len(ends) - lines) :] if lines else [])
