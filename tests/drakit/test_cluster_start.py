from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from clusters.base import check_room
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterError, ClusterSpec


def test_a_taken_port_is_told_with_a_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError) as caught:
            EmbeddedCluster(ClusterSpec(control_plane=False), port=port)
    text = str(caught.value)
    assert text.startswith(f"the API server cannot listen on 127.0.0.1:{port}: ")
    assert "choose another port (0 takes a free one) or stop the process that uses it" in text
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setattr(tempfile, "tempdir", str(gone))
    with pytest.raises(ClusterError) as caught:
        EmbeddedCluster(ClusterSpec(control_plane=False))
    assert str(caught.value).startswith(f"cannot use the temporary folder {gone}: No such file")


@pytest.mark.parametrize(("length", "fits"), [(63, True), (64, False)])
def test_the_room_for_sockets_is_counted(monkeypatch: pytest.MonkeyPatch, length: int, fits: bool) -> None:
    # 8 (/tmp/abc) + 12 (/dk-xxxxxxxx) + 6 (/n9999) + 8 (/plugins) + 1 + 63 + 9 (/dra.sock) = 107, the limit.
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/abc")
    if fits:
        check_room("n" * length)
    else:
        with pytest.raises(ClusterError, match="would have 108 bytes, and a Unix socket allows 107"):
            check_room("n" * length)
