"""What `drakit doctor` concludes of a host, and what the real one answers."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_host_scene import CHECKS, Scene, scene

from clusters.doctor.checks import HOST_CHECKS
from clusters.doctor.host import Host, RealHost
from clusters.doctor.model import Checked, State, Wanted, obstacles

__all__ = ["scene"]


def test_a_host_that_has_everything_can_run_every_tier(scene: Scene) -> None:
    found = {check.id: check.run(scene.host, Wanted()) for check in HOST_CHECKS}
    assert {name: finding for name, finding in found.items() if finding.state is not State.OK} == {}


def test_root_without_an_engine_gets_one_of_the_kits_own(scene: Scene) -> None:
    scene.no_engine()
    scene.patch.delenv("DOCKER_HOST")
    scene.kernel("proc/self/status", "CapBnd:\t000001fffeffffff\n")
    scene.kernel("proc/sys/net/ipv4/ip_forward", "0\n")
    checked = [Checked(check, check.run(scene.host, Wanted())) for check in HOST_CHECKS]
    assert obstacles(checked, "kind") == []
    texts = {item.check.id: item.finding.seen for item in checked}
    assert texts["engine"] == "none runs; drakit starts one of its own while a cluster needs it"
    assert "the engine that drakit starts makes nodes without it" in texts["cap-sys-resource"]


def test_whoever_wants_an_engine_of_the_kits_own_is_told_of_no_other(scene: Scene) -> None:
    scene.patch.setenv("DRAKIT_ENGINE", "private")
    scene.kernel("proc/self/status", "CapBnd:\t000001fffeffffff\n")
    assert (
        scene.find("engine").seen
        == "DRAKIT_ENGINE=private; drakit starts one of its own while a cluster needs it"
    )
    assert "the engine that drakit starts makes nodes without it" in scene.find("cap-sys-resource").seen


def test_a_check_says_whom_it_blocks(scene: Scene) -> None:
    scene.kernel("proc/meminfo", "MemAvailable: 1048576 kB\n")
    scene.host.user = 1000
    checked = [Checked(check, check.run(scene.host, Wanted())) for check in HOST_CHECKS]
    assert {tier: obstacles(checked, tier) for tier in ("embedded", "local", "kind")} == {
        "embedded": [],
        "local": ["memory", "root"],
        "kind": ["memory"],
    }


def test_what_a_gate_needs_is_added_on_real_clusters_unless_it_is_switched_off(scene: Scene) -> None:
    off = "scheduling.k8s.io/v1beta1=false"
    for config, blocked in (("", ["embedded"]), (off, ["embedded", "local", "kind"])):
        wanted = Wanted(feature_gates="GenericWorkload=true", runtime_config=config)
        found = Checked(CHECKS["gate-api"], CHECKS["gate-api"].run(scene.host, wanted))
        assert [tier for tier in ("embedded", "local", "kind") if found.blocks(tier)] == blocked


def test_a_file_that_may_not_be_read_is_unknown(scene: Scene) -> None:
    scene.kernel("proc/sys/fs/inotify/max_user_instances", None)
    found = scene.find("inotify-instances")
    assert (found.state, "No such file or directory" in found.seen) == (State.UNKNOWN, True)


# What the real host answers


def test_a_command_runs_once_and_one_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.doctor.host._SECONDS", 0.2)
    log = tmp_path / "log"
    script = tmp_path / "slow"
    script.write_text(f"#!/bin/sh\necho x >> {log}\nexec /bin/sleep 30\n")
    script.chmod(0o755)
    host = RealHost()
    for _ in range(2):
        assert host.run(str(script)).last_line == "no answer within 0.2 s"
    assert log.read_text() == "x\n"
    with pytest.raises(OSError, match="No such file"):
        host.run(str(tmp_path / "none"))


def test_a_file_system_without_room_is_seen(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    script = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.unshare(0x20000) == 0\n"
        "assert libc.mount(b'none', b'/', b'none', 16384 | 1 << 18, None) == 0\n"
        "assert libc.mount(b't', sys.argv[1].encode(), b'tmpfs', 0, b'size=64k,nr_inodes=9') == 0\n"
        "from pathlib import Path\n"
        "from clusters.doctor.host import RealHost\n"
        "folder = Path(sys.argv[1])\n"
        "(folder / 'fill').write_bytes(b'x' * 65536)\n"
        "host = RealHost()\n"
        "print(host.room(folder / 'a' / 'b').free, host.write_problem(folder))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "0 No space left on device\n", done.stderr


def test_a_port_is_free_again_after_its_server() -> None:
    host = RealHost()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        port = listener.getsockname()[1]
        assert host.bind(port) == errno.EADDRINUSE
    assert host.bind(port) == 0


def test_sockets_are_told_from_files_and_from_nothing(scene: Scene) -> None:
    host: Host = RealHost()
    stale = scene.folder / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.path.relpath(stale))
    assert [host.kind_of(path) for path in (scene.socket, stale, scene.folder, scene.folder / "no")] == [
        "socket",
        "socket",
        "folder",
        "",
    ]
    assert host.connect(scene.socket) == 0
    assert host.connect(Path("/tmp") / ("x" * 200)) == errno.EINVAL
