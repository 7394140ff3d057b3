from __future__ import annotations

import asyncio
from typing import Any

from kubelet_harness import bench, condition, container, run, state

from clusters.embedded.kubelet.pods.conditions import with_ready_sandbox


def test_a_pod_becomes_running_and_ready() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            found = await made.ready("p")
            status = found["status"]
            assert (status["phase"], status["qosClass"], status["hostIP"]) == (
                "Running",
                "BestEffort",
                "127.0.0.1",
            )
            assert status["podIPs"] == [{"ip": status["podIP"]}]
            kinds = [item["type"] for item in status["conditions"]]
            assert kinds == [
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            ]
            assert all(
                item["status"] == "True" and item["observedGeneration"] == 1 for item in status["conditions"]
            )
            own = state(found)
            assert (own["ready"], own["started"], own["restartCount"]) == (True, True, 0)
            assert own["image"] == "docker.io/library/probe:1"
            assert own["imageID"].startswith("docker.io/library/probe@sha256:")
            assert own["containerID"].startswith("containerd://")
            await made.event("Started", "Container started")
            events = [
                event for event in await made.events() if "Node" not in event[1] and "kubelet" not in event[1]
            ]
            text = 'Container image "probe:1" already present on machine and can be accessed by the pod'
            assert events == [
                ("Pulled", text),
                ("Created", "Container created"),
                ("Started", "Container started"),
            ]

    run(scenario())


def test_events_name_their_container_and_come_from_the_kubelet_of_the_node() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            event = await made.event("Started", "Container started")
            assert event["source"] == {"component": "kubelet", "host": "n1"}
            assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"

    run(scenario())


def test_a_completed_pod_succeeds_and_keeps_its_address() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", "exit", "0"), restartPolicy="Never")
            found = await made.phase("p", "Succeeded")
            assert found["status"]["podIP"]
            ended = state(found)["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
            for kind in ("Ready", "ContainersReady"):
                assert condition(found, kind)["reason"] == "PodCompleted"
            assert condition(found, "Initialized")["reason"] == "PodCompleted"

    run(scenario())


def test_a_failed_container_fails_a_pod_that_never_restarts() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", "exit", "3"), restartPolicy="Never")
            found = await made.phase("p", "Failed")
            ended = state(found)["state"]["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (3, "Error")
            assert condition(found, "Ready")["reason"] == "PodFailed"

    run(scenario())


def test_a_failing_container_is_restarted_at_once_then_after_ten_seconds_then_after_twenty() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=60.0) as made:
            await made.create("p", container("c", "exit", "1"))

            async def restarts() -> int:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("containerStatuses") or []
                return statuses[0]["restartCount"] if statuses else 0

            async def reach(count: int) -> None:
                async def check() -> bool:
                    return await restarts() == count

                await made.until(check, f"{count} restarts")

            await reach(1)
            await made.event("BackOff", "Back-off restarting failed container c in pod p_default(")
            made.clock.advance(9)
            await asyncio.sleep(0.2)
            assert await restarts() == 1
            # 10 s times the largest jitter of 1.5
            made.clock.advance(6)
            await reach(2)
            made.clock.advance(19)
            await asyncio.sleep(0.2)
            assert await restarts() == 2
            made.clock.advance(11)
            await reach(3)
            assert (await made.pod("p") or {})["status"]["phase"] == "Running"

    run(scenario())


def test_a_container_that_waits_for_its_restart_says_so() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made:
            await made.create("p", container("c", "exit", "1"))

            async def waiting() -> Any:
                found = await made.pod("p")
                own = state(found) if found and found["status"].get("containerStatuses") else {"state": {}}
                return own if own["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" else None

            own = await made.until(waiting, "the container waits")
            uid = (await made.pod("p") or {})["metadata"]["uid"]
            text = f"back-off 10s restarting failed container=c pod=p_default({uid})"
            assert own["state"]["waiting"]["message"] == text
            assert (own["restartCount"], own["ready"]) == (1, False)
            assert own["lastState"]["terminated"]["exitCode"] == 1

    run(scenario())


def test_a_deleted_pod_stops_and_its_object_goes() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c"))
            await made.ready("p")
            await made.delete("p", 30)
            await made.gone("p")
            await made.event("Killing", "Stopping container c")

            async def no_sandbox() -> bool:
                return not await made.runtime.list_pod_sandboxes()

            await made.until(no_sandbox, "the sandbox is removed")

    run(scenario())


def test_a_plain_sleep_is_killed_after_the_grace_period() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", "sleep", "9999"))
            await made.ready("p")
            await made.delete("p", 30)
            await made.event("Killing", "Stopping container c")
            await asyncio.sleep(0.2)
            assert await made.pod("p") is not None
            made.clock.advance(30)
            await made.gone("p")

    run(scenario())


def test_a_force_deleted_pod_is_stopped_though_its_object_is_gone() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            await made.ready("p")
            await made.delete("p", 0)
            assert await made.pod("p") is None
            await made.event("Killing", "Stopping container c")

            async def no_sandbox() -> bool:
                return not await made.runtime.list_pod_sandboxes()

            await made.until(no_sandbox, "the sandbox is removed")

    run(scenario())


def test_a_second_deletion_does_not_shorten_a_stop_that_has_begun() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", "sleep", "9999"))
            await made.ready("p")
            await made.delete("p", 300)
            await made.event("Killing", "Stopping container c")
            await asyncio.sleep(0.2)
            await made.delete("p", 2)
            await asyncio.sleep(0.2)
            made.clock.advance(200)
            await asyncio.sleep(0.2)
            assert await made.pod("p") is not None
            made.clock.advance(100)
            await made.gone("p")

    run(scenario())


def test_a_new_sandbox_changes_one_condition_alone() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    not_yet = {"type": "PodReadyToStartContainers", "status": "False", "reason": "PodSandboxNotReady"}
    status = {"phase": "Pending", "conditions": [not_yet, ready], "containerStatuses": []}
    pod = {"metadata": {"generation": 3}}
    now = {"type": "PodReadyToStartContainers", "status": "True", "observedGeneration": 3}
    assert with_ready_sandbox(pod, status) == {**status, "conditions": [now, ready]}
    assert status["conditions"] == [not_yet, ready]
    assert with_ready_sandbox(pod, {"phase": "Pending"})["conditions"] == [now]


def test_a_pod_deleted_by_force_while_no_kubelet_runs_is_stopped_with_an_event() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            await made.ready("p")
            await made.kill()
            await made.delete("p", 0)
            made.start()
            event = await made.event("Killing", "Stopping container c")
            assert event["involvedObject"]["name"] == "p"
            assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"

    run(scenario())
