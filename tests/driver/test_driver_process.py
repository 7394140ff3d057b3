"""The driver as a process, over its own sockets: registration, calls of the kubelet, restarts, its end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from driver_kit import BDF
from driver_world import World, wait_until

from fake_hw import journal
from fake_hw.faults import Faults
from node_api.cdi import resolve
from node_api.services import DRA_V1BETA1

pytestmark = pytest.mark.process


def test_registration_names_services_that_are_served(world: World) -> None:
    world.start()
    info = world.info
    assert (info.type, info.name) == ("DRAPlugin", "gpu.example.com")
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
    assert Path(info.endpoint).is_absolute()
    assert Path(info.endpoint).stat().st_mode & 0o777 == 0o600
    for service in info.supported_versions:
        claim = world.claim(service.split(".")[0], "gpu-0")
        answer = world.prepare(claim, service=service)[claim["metadata"]["uid"]]
        assert answer.error == ""
        assert resolve(list(answer.devices[0].cdi_device_ids), [world.cdi]).edits.device_nodes
        assert world.unprepare(claim, service=service)[claim["metadata"]["uid"]].error == ""
    assert world.cdi_names() == []
    # A kubelet that restarts registers again.
    assert world.get_info() == info


def test_the_driver_is_registered_within_seven_tenths_of_a_second(world: World) -> None:
    started = time.monotonic()
    world.start(register=False)
    wait_until(world.listening, 10, "the registration socket")
    elapsed = time.monotonic() - started
    # Running and sleeping count; waiting for a processor, with which others were busy, does not.
    assert world.process is not None
    waited = int(Path(f"/proc/{world.process.pid}/schedstat").read_text().split()[1]) / 1e9
    assert elapsed - waited < 0.7, f"{elapsed:.2f} s, of which it waited {waited:.2f} s"


def test_a_refused_registration_is_told_and_not_ready(world: World) -> None:
    world.start()
    world.wait_published()
    wait_until(lambda: not world.not_ready(), 10, "ready")
    world.notify("no handler registered for plugin type")
    assert "registered: the kubelet refused the registration: no handler registered" in world.not_ready()
    assert "no handler registered for plugin type" in world.log.read_text()
    world.notify()
    assert world.not_ready() == ""


def test_errors_are_per_claim_and_the_others_of_the_call_succeed(world: World) -> None:
    world.start()
    good, pending, taken = world.claim("good", "gpu-0"), world.claim("pending"), world.claim("taken", "gpu-0")
    ghost = {"metadata": {"namespace": "ns", "name": "ghost", "uid": "6d0f3f2a-0000-4000-8000-000000000001"}}
    other = {"metadata": {**good["metadata"], "uid": "6d0f3f2a-0000-4000-8000-000000000002"}}
    answers = world.prepare(good, pending, ghost, other, taken)
    errors = {
        item["metadata"]["uid"]: answers[item["metadata"]["uid"]].error
        for item in (good, pending, ghost, other, taken)
    }
    assert errors[good["metadata"]["uid"]] == ""
    assert "not allocated" in errors[pending["metadata"]["uid"]]
    assert "not found" in errors[ghost["metadata"]["uid"]]
    assert "got replaced" in errors[other["metadata"]["uid"]]
    assert f"already prepared for claim ns/{good['metadata']['name']}" in errors[taken["metadata"]["uid"]]
    assert list(world.held()) == [good["metadata"]["uid"]]
    unknown = world.unprepare(ghost, pending, good)
    assert [unknown[key].error for key in sorted(unknown)] == ["", "", ""]
    assert world.held() == {}


def test_share_ids_come_back_in_v1_only(world: World) -> None:
    world.start()
    share = "0c0ffee0-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
    shared, plain = world.claim("shared", "gpu-0", shareID=share), world.claim("plain", "gpu-1")
    (new,) = world.prepare(shared)[shared["metadata"]["uid"]].devices
    assert new.share_id == share
    (old,) = world.prepare(shared, service=DRA_V1BETA1)[shared["metadata"]["uid"]].devices
    assert old.cdi_device_ids == new.cdi_device_ids
    # An absent share stays absent, not empty.
    assert not world.prepare(plain)[plain["metadata"]["uid"]].devices[0].HasField("share_id")


def test_eight_calls_at_once_have_one_effect(world: World) -> None:
    world.start()
    claim = world.claim("many", "gpu-0", "gpu-1")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: world.prepare(claim), range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][claim["metadata"]["uid"]].error == ""
    assert len([event for event in journal.read(world.hw) if event.kind == "configure"]) == 2


def test_prepare_works_while_slices_are_refused(world: World) -> None:
    with world.proxy.fault(resource="resourceslices", status=503):
        world.start()
        claim = world.claim("early", "gpu-0")
        assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""


def test_a_claim_read_that_fails_for_a_moment_is_repeated(world: World) -> None:
    world.start()
    claim = world.claim("moment", "gpu-0")
    with world.proxy.fault(resource="resourceclaims", cut="before", times=2):
        assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""
    with world.proxy.fault(resource="resourceclaims", status=500):
        error = world.prepare(claim)[claim["metadata"]["uid"]].error
    assert f"retrieve claim ns/{claim['metadata']['name']}: 500" in error


def test_claims_survive_sigkill_and_stale_sockets(world: World) -> None:
    world.start()
    claim, other = world.claim("a", "gpu-0"), world.claim("b", "gpu-0")
    uid = claim["metadata"]["uid"]
    first = world.prepare(claim)[uid]
    world.kill()
    assert world.registration_socket.exists()
    for path in world.cdi.iterdir():
        path.unlink()
    world.start()
    assert len(world.cdi_names()) == 1
    assert "already prepared" in world.prepare(other)[other["metadata"]["uid"]].error
    assert world.prepare(claim)[uid] == first
    world.admin.delete("resource.k8s.io/v1", "resourceclaims", claim["metadata"]["name"], "ns")
    assert world.unprepare(claim)[uid].error == ""
    assert world.prepare(other)[other["metadata"]["uid"]].error == ""
    assert journal.overlaps(journal.read(world.hw)) == []


@pytest.mark.parametrize(
    "failpoint",
    ["checkpoint.rename:2", "hardware.configure:2", "cdi.rename", "checkpoint.dirsync:3", "prepare.answer"],
)
def test_a_driver_killed_in_a_prepare_comes_back(world: World, failpoint: str) -> None:
    claim, other = world.claim("a", "gpu-0", "gpu-1"), world.claim("b", "gpu-1")
    world.start(failpoint=failpoint)
    with pytest.raises(Exception, match="UNAVAILABLE"):
        world.prepare(claim)
    world.wait_killed()
    world.start()
    assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""
    assert "already prepared" in world.prepare(other)[other["metadata"]["uid"]].error
    assert world.unprepare(claim)[claim["metadata"]["uid"]].error == ""
    assert world.prepare(other)[other["metadata"]["uid"]].error == ""
    assert journal.overlaps(journal.read(world.hw)) == []
    assert len(world.cdi_names()) == 1


def test_a_corrupt_checkpoint_is_kept_aside_and_not_ready_names_it(world: World) -> None:
    world.start()
    claim, other = world.claim("a", "gpu-0"), world.claim("b", "gpu-0")
    world.prepare(claim)
    world.kill()
    checkpoint = world.plugin / "checkpoint.json"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-40])
    world.start()
    kept = world.plugin / "checkpoint.json.corrupt-1"
    assert str(kept) in world.not_ready()
    assert str(checkpoint) in world.log.read_text()
    assert "already prepared for claim UID" in world.prepare(other)[other["metadata"]["uid"]].error
    assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""
    world.wait_published()
    kept.unlink()
    wait_until(lambda: not world.not_ready(), 10, "ready after the file was removed")


def test_sigterm_removes_the_sockets_and_keeps_slices_and_claims(world: World) -> None:
    world.start()
    claim = world.claim("a", "gpu-0")
    world.prepare(claim)
    slices = world.wait_published()
    assert world.stop() == 0
    assert sorted(path.name for path in world.plugin.iterdir()) == ["checkpoint.json", "lock"]
    assert list(world.registry.iterdir()) == []
    assert world.slices() == slices
    assert list(world.held()) == [claim["metadata"]["uid"]]
    assert "Traceback" not in world.log.read_text()


def test_a_running_call_is_finished_on_sigterm_and_registration_goes_first(world: World) -> None:
    world.start()
    claim = world.claim("a", "gpu-0")
    Faults(world.hw).block_configure()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(world.prepare, claim)
        wait_until(
            lambda: any(e.kind == "configure-blocked" for e in journal.read(world.hw)), 10, "a blocked call"
        )
        assert world.process is not None
        world.process.terminate()
        wait_until(lambda: not world.registration_socket.exists(), 10, "the registration socket to go")
        Faults(world.hw).release()
        assert call.result()[claim["metadata"]["uid"]].error == ""
    assert world.process.wait(20) == 0
    world.process = None


def test_a_call_that_hangs_in_the_hardware_does_not_keep_the_process_nor_free_its_state(world: World) -> None:
    world.start()
    claim = world.claim("a", "gpu-0")
    Faults(world.hw).block_configure()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(world.prepare, claim)
        wait_until(
            lambda: any(e.kind == "configure-blocked" for e in journal.read(world.hw)), 10, "a blocked call"
        )
        assert world.process is not None
        world.process.terminate()
        lock = (world.plugin / "lock").open()
        # Whoever gets the lock is alone: the call that hangs must not wake up later and write.
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert world.process.wait(5) == 0
        lock.close()
        Faults(world.hw).release()
        with pytest.raises(grpc.RpcError):
            call.result()
    world.process = None
    world.start()
    assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""


def test_sockets_that_somebody_removes_are_made_anew(world: World) -> None:
    world.start("--rescan-interval", "0.2")
    claim = world.claim("a", "gpu-0")
    world.prepare(claim)
    for directory in (world.registry, world.plugin / "dra.sock"):
        if directory.is_dir():
            shutil.rmtree(directory)
            wait_until(lambda: "make it again" in world.not_ready(), 10, "the loss to be told")
            directory.mkdir()
        else:
            directory.unlink()
        wait_until(lambda: world.listening() and (world.plugin / "dra.sock").exists(), 10, "the socket")
        assert world.get_info() == world.info
        assert world.prepare(claim)[claim["metadata"]["uid"]].error == ""
    assert "no kubelet has registered the driver yet" in world.not_ready()
    world.notify()
    world.wait_published()
    wait_until(lambda: not world.not_ready(), 10, "ready")
    assert world.stop() == 0
    assert list(world.registry.iterdir()) == []


def test_signals_in_any_number_end_the_driver_once(world: World) -> None:
    world.start()
    assert world.process is not None
    while world.process.poll() is None:
        world.process.send_signal(signal.SIGTERM)
        world.process.send_signal(signal.SIGINT)
    assert world.process.returncode == 0
    assert world.log.read_text().count(" stopped ") == 1
    world.process = None


def test_calls_that_hang_for_one_claim_leave_room_for_the_others(world: World) -> None:
    world.start()
    hanging, other = world.claim("a", "gpu-0"), world.claim("b", "gpu-1")
    world.prepare(other)
    Faults(world.hw).block_configure(BDF["gpu-0"])

    def given_up(_: int) -> None:
        with pytest.raises(grpc.RpcError, match="Deadline"):
            world.prepare(hanging, timeout=1.5)

    # More calls than the driver has threads.
    with ThreadPoolExecutor(70) as pool:
        list(pool.map(given_up, range(70)))
    assert world.unprepare(other, timeout=5)[other["metadata"]["uid"]].error == ""
    Faults(world.hw).release()


def test_an_unprepare_of_two_claims_overtakes_a_prepare_that_hangs_at_the_first(world: World) -> None:
    world.start()
    first, second = world.claim("a", "gpu-0"), world.claim("b", "gpu-1")
    Faults(world.hw).block_configure(BDF["gpu-0"])
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(world.prepare, first, second)
        wait_until(
            lambda: any(e.kind == "configure-blocked" for e in journal.read(world.hw)), 10, "a blocked call"
        )
        assert [answer.error for answer in world.unprepare(first, second).values()] == ["", ""]
        Faults(world.hw).release()
        assert ["unprepared while" in answer.error for answer in call.result().values()] == [True, True]
    assert world.held() == {}
    assert world.cdi_names() == []


def test_a_claim_named_twice_in_a_call_is_answered_once(world: World) -> None:
    world.start()
    claim = world.claim("a", "gpu-0")
    assert len(world.prepare(claim, claim)[claim["metadata"]["uid"]].devices) == 1


def test_a_second_instance_is_refused(world: World) -> None:
    world.start()
    second = subprocess.run(world.command(), capture_output=True, text=True)
    assert second.returncode == 1
    assert "another instance of the driver uses" in second.stderr
    assert len(second.stderr.splitlines()) == 2 or "listening" not in second.stderr
    assert world.get_info() == world.info


def test_a_claim_that_has_gone_while_the_driver_was_down_is_released(world: World) -> None:
    world.start()
    claim, other = world.claim("a", "gpu-0"), world.claim("b", "gpu-0")
    world.prepare(claim)
    world.kill()
    world.admin.delete("resource.k8s.io/v1", "resourceclaims", claim["metadata"]["name"], "ns")
    world.start("--reconcile-interval", "0.3")
    wait_until(lambda: not world.held(), 10, "the release")
    assert world.prepare(other)[other["metadata"]["uid"]].error == ""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
    return subprocess.run(
        [sys.executable, "-m", "driver", *arguments],
        capture_output=True,
        text=True,
        env={**clean, **environment},
    )


def test_missing_and_wrong_settings_are_one_line_and_code_2(world: World, tmp_path: Path) -> None:
    def changed(name: str, *value: str) -> list[str]:
        words = world.command()[3:]
        place = words.index(name)
        return words[:place] + ([name, *value] if value else []) + words[place + 2 :]

    broken = tmp_path / "broken"
    broken.write_text("not a kubeconfig")
    cases = {
        "--name, --node, --plugin-dir": [],
        "--kubeconfig must be given": changed("--kubeconfig"),
        "--node must be given": changed("--node-name"),
        "--hw-root must be given": changed("--hw-root"),
        "cannot be read": changed("--kubeconfig", str(tmp_path / "absent")),
        f"--kubeconfig {broken}": changed("--kubeconfig", str(broken)),
        "must be a lower-case DNS subdomain": changed("--name", "GPU"),
        "is not a directory": changed("--registry-dir", str(tmp_path / "absent")),
        "a Unix socket allows 107": changed("--plugin-dir", str(tmp_path / ("x" * 120))),
    }
    for text, words in cases.items():
        done = run(*words)
        assert done.returncode == 2, (text, done.stderr)
        last = done.stderr.splitlines()[-1]
        assert text in last
        assert last.startswith("driver: ")
        assert "Traceback" not in done.stderr
    done = run(*world.command()[3:], DRAKIT_FAILPOINT="nonsense")
    assert (done.returncode, "unknown failpoint" in done.stderr) == (2, True)


def test_questions_to_a_driver_that_is_not_there(tmp_path: Path) -> None:
    done = run("--ready", "--plugin-dir", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("not ready: the driver does not answer")
    done = run("--list-claims", "--plugin-dir", str(tmp_path))
    assert (done.returncode, json.loads(done.stdout)["claims"]) == (0, {})
