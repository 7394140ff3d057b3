from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from clusters import log_files
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec
from clusters.log_files import LogFile
from clusters.output import Output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return log_files.make_folder(tmp_path)


def test_a_log_is_there_from_the_start_and_its_owners_alone(folder: Path) -> None:
    log = LogFile(folder, "scheduler")
    assert log_files.found(folder) == {"scheduler": folder / "scheduler.log"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_lines_are_written_when_they_are_whole(folder: Path) -> None:
    log = LogFile(folder, "driver-a")
    log.write(b"one\ntw")
    assert log.path.read_text() == "one\n"
    log.write(b"o\nthree")
    assert log.path.read_text() == "one\ntwo\n"
    log.finish()
    assert log.path.read_text() == "one\ntwo\nthree\n"


def test_a_credential_in_two_pieces_is_taken_out(folder: Path) -> None:
    log = LogFile(folder, "driver-a", lambda text: text.replace("s3cret", "[token]"))
    log.write(b"token: s3c")
    log.write(b"ret\xff\n")
    assert log.path.read_bytes() == b"token: [token]\xff\n"


def test_a_line_without_end_is_broken(folder: Path) -> None:
    log = LogFile(folder, "driver-a")
    log.write(b"x" * 70_000)
    assert log.path.stat().st_size == 70_001


def test_a_long_log_begins_anew_and_its_last_part_stays(folder: Path) -> None:
    log = LogFile(folder, "driver-a")
    line = b"y" * 1023 + b"\n"
    for _ in range(20):
        log.write(line * 1024)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    # 9 MiB is the first that exceeds the limit of 8: 9 + 9 have gone to one file after the other, 2 are in the third.
    assert sizes == {"driver-a.log": 2 << 20, "driver-a.log.1": 9 << 20}
    assert list(log_files.found(folder)) == ["driver-a"]


def test_a_log_that_cannot_be_written_is_no_failure(folder: Path) -> None:
    log = LogFile(folder, "driver-a")
    log.path.unlink()
    folder.rmdir()
    log.write(b"lost\n")


def test_what_a_process_prints_goes_to_its_log(folder: Path) -> None:
    log = LogFile(folder, "driver-a")
    output = Output(log)
    with os.fdopen(output.pipe(), "wb") as pipe:
        pipe.write(b"first\nlast")
    output.finish()
    assert output.text() == "first\nlast"
    assert log.path.read_text() == "first\nlast\n"


@pytest.mark.process
def test_every_component_of_an_embedded_cluster_has_a_log_without_tokens() -> None:
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec(),))) as cluster:
        cluster.wait_ready()
        logs = log_files.found(cluster.root / log_files.FOLDER)
        assert sorted(logs) == sorted(cluster.components())
        assert {"apiserver", "scheduler", "kubelet-node-1", "resourceclaim-controller"} <= set(logs)
        cluster.component("apiserver").restart()
        assert logs["apiserver"].read_text().splitlines()[0].endswith(f"I serving on {cluster.url}")
        assert cluster.component("apiserver").logs() == logs["apiserver"].read_text().splitlines()
        assert all(component.running for component in cluster.components().values())
        text = "".join(path.read_text() for path in logs.values())
        assert text and cluster.redact(text) == text
        root = cluster.root
    assert not root.exists()
