from __future__ import annotations

import asyncio
from typing import Any

from kubelet_harness import POLITE, Bench, bench, condition, container, run, state


async def names(made: Bench) -> list[str]:
    return [found.config.name for found in await made.runtime.list_containers()]


async def finished(made: Bench) -> list[str]:
    """Names of containers in the order of their ends."""
    ended = [found for found in await made.runtime.list_containers() if found.finished_at is not None]
    return [found.config.name for found in sorted(ended, key=lambda found: found.finished_at or 0.0)]


def test_init_containers_run_one_after_the_other_before_the_regular_ones() -> None:
    async def scenario() -> None:
        async with bench() as made:
            init = [container("i1", "exit", "0"), container("i2", "exit", "0")]
            await made.create("p", initContainers=init)
            found = await made.ready("p")
            assert await names(made) == ["i1", "i2", "c"]
            assert [state(found, item)["state"]["terminated"]["reason"] for item in ("i1", "i2")] == [
                "Completed"
            ] * 2
            assert [state(found, item)["ready"] for item in ("i1", "i2", "c")] == [True] * 3
            assert condition(found, "Initialized")["status"] == "True"

    run(scenario())


def test_while_init_containers_run_the_pod_waits() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", initContainers=[container("i1"), container("i2")])

            async def running() -> Any:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("initContainerStatuses") or []
                return found if statuses and "running" in statuses[0]["state"] else None

            found = await made.until(running, "the first init container runs")
            assert found["status"]["phase"] == "Pending"
            assert state(found)["state"] == {"waiting": {"reason": "PodInitializing"}}
            assert state(found, "i2")["state"] == {"waiting": {"reason": "PodInitializing"}}
            initialized = condition(found, "Initialized")
            assert (initialized["status"], initialized["reason"], initialized["message"]) == (
                "False",
                "ContainersNotInitialized",
                "containers with incomplete status: [i1 i2]",
            )

    run(scenario())


def test_a_failed_init_container_fails_a_pod_that_never_restarts() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", initContainers=[container("i1", "exit", "7")], restartPolicy="Never")
            found = await made.phase("p", "Failed")
            assert state(found, "i1")["state"]["terminated"]["exitCode"] == 7
            assert await names(made) == ["i1"]

    run(scenario())


def test_a_failed_init_container_is_tried_again_with_back_off() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made:
            await made.create("p", initContainers=[container("i1", "exit", "7")], restartPolicy="OnFailure")

            async def waiting() -> bool:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("initContainerStatuses") or []
                return (
                    bool(statuses)
                    and statuses[0]["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
                )

            await made.until(waiting, "the init container waits")
            assert (await made.pod("p") or {})["status"]["phase"] == "Pending"

    run(scenario())


def sidecar(name: str, *command: str) -> dict[str, Any]:
    return container(name, *command, restartPolicy="Always")


def test_sidecars_run_beside_the_regular_containers_and_end_after_them_in_reverse() -> None:
    async def scenario() -> None:
        async with bench() as made:
            slow = container("c", "bash", "-c", "trap 'sleep 5; exit 0' TERM; sleep 9999 & wait")
            await made.create(
                "p", slow, initContainers=[sidecar("s1"), container("i", "exit", "0"), sidecar("s2")]
            )
            found = await made.ready("p")
            assert await names(made) == ["s1", "i", "s2", "c"]
            for item in ("s1", "s2", "c"):
                assert "running" in state(found, item)["state"]
            await made.delete("p")
            await made.event("Killing", "Stopping container s1")
            await asyncio.sleep(0.3)
            assert await finished(made) == ["i"]
            ends: list[str] = []
            remove = made.runtime.remove_pod_sandbox

            async def removing(sandbox_id: str) -> None:
                ends.extend(await finished(made))
                await remove(sandbox_id)

            made.runtime.remove_pod_sandbox = removing  # type: ignore[method-assign]
            made.clock.advance(5)

            async def removed() -> bool:
                return bool(ends)

            await made.until(removed, "the sandbox is removed")
            assert ends == ["i", "c", "s2", "s1"]

    run(scenario())


def test_sidecars_do_not_keep_a_pod_alive_whose_containers_have_completed() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create(
                "p", container("c", "exit", "0"), initContainers=[sidecar("s")], restartPolicy="Never"
            )
            found = await made.phase("p", "Succeeded")
            assert "terminated" in state(found, "s")["state"]

    run(scenario())


def test_a_sidecar_that_ends_is_started_again_though_the_pod_never_restarts() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", initContainers=[sidecar("s", "sleep", "60")], restartPolicy="Never")
            await made.ready("p")
            made.clock.advance(60)

            async def restarted() -> bool:
                found = await made.pod("p")
                own = state(found, "s") if found else {"state": {}}
                return "running" in own["state"] and own["restartCount"] == 1

            await made.until(restarted, "the sidecar is started again")
            assert state(await made.ready("p"))["restartCount"] == 0

    run(scenario())


def test_a_changed_image_restarts_the_container() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            await made.ready("p")
            patch = {"spec": {"containers": [{"name": "c", "image": "probe:2"}]}}
            await made.client.patch("v1", "pods", "p", patch, "default")
            await made.event("Killing", "Container c definition changed, will be restarted")

            async def changed() -> bool:
                found = await made.pod("p")
                return found is not None and state(found)["image"] == "docker.io/library/probe:2"

            await made.until(changed, "the new image runs")

    run(scenario())


def test_a_command_that_cannot_be_started_is_a_run_error() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made:
            await made.create("p", container("c", "/no/such/file"))

            async def waiting() -> Any:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("containerStatuses") or [{"state": {}}]
                reason = statuses[0]["state"].get("waiting", {}).get("reason")
                return statuses[0] if reason in ("RunContainerError", "CrashLoopBackOff") else None

            own = await made.until(waiting, "the container waits")
            ended = own["lastState"]["terminated"]
            assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
            await made.event("Failed", "Error: ")

    run(scenario())


def test_a_dead_sandbox_is_replaced_and_counted() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            await made.ready("p")
            (sandbox,) = await made.runtime.list_pod_sandboxes()
            await made.runtime.stop_pod_sandbox(sandbox.id)
            await made.event("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")

            async def again() -> Any:
                found = await made.pod("p")
                own = state(found) if found else {"state": {}}
                return "running" in own["state"] and own["restartCount"] == 1

            await made.until(again, "the container runs again")
            assert [item.config.attempt for item in await made.runtime.list_pod_sandboxes()][-1] == 1

    run(scenario())


def test_nothing_is_written_while_nothing_changes() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.1) as made:
            await made.create(
                "p",
                container("c", *POLITE, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
                container("d", resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
                initContainers=[container("i", "exit", "0")],
                volumes=[{"name": "v", "emptyDir": {}}],
            )
            found = await made.ready("p")
            await asyncio.sleep(0.5)
            requests: list[str] = []
            assert made.node_client is not None
            request = made.node_client.request

            async def recorded(method: str, path: str, **more: Any) -> Any:
                requests.append(f"{method} {path}")
                return await request(method, path, **more)

            made.node_client.request = recorded  # type: ignore[method-assign]
            # also the look at all statuses, every ten seconds
            for _ in range(3):
                made.clock.advance(10)
                await asyncio.sleep(0.1)
            again = await made.pod("p")
            assert again is not None
            assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
            assert not [item for item in requests if "/pods/" in item]
            assert [item for item in requests if "/leases/" in item]

    run(scenario())


def test_what_others_write_into_a_status_is_repaired_and_their_conditions_stay() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p")
            await made.ready("p")
            foreign = {
                "type": "example.com/x",
                "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            patch = {"status": {"podIP": "9.9.9.9", "podIPs": [{"ip": "9.9.9.9"}], "conditions": [foreign]}}
            await made.client.patch("v1", "pods", "p", patch, "default", subresource="status")
            made.clock.advance(10)

            async def repaired() -> Any:
                found = await made.pod("p")
                return found if found and found["status"]["podIP"].startswith("10.244.") else None

            found = await made.until(repaired, "the address is repaired")
            assert [item["ip"] for item in found["status"]["podIPs"]] == [found["status"]["podIP"]]
            assert condition(found, "example.com/x")["status"] == "True"

    run(scenario())


def test_readiness_gates_are_part_of_readiness() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", readinessGates=[{"conditionType": "example.com/x"}])

            async def waiting() -> Any:
                found = await made.pod("p")
                ready = condition(found, "Ready") if found else {}
                return ready if ready.get("reason") == "ReadinessGatesNotReady" else None

            ready = await made.until(waiting, "the gate is waited for")
            text = 'corresponding condition of pod readiness gate "example.com/x" does not exist.'
            assert ready["message"] == text
            gate = {"type": "example.com/x", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            await made.client.patch(
                "v1", "pods", "p", {"status": {"conditions": [gate]}}, "default", subresource="status"
            )
            await made.ready("p")

    run(scenario())


def test_a_pod_that_is_active_for_too_long_fails() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=60.0) as made:
            await made.create("p", activeDeadlineSeconds=30)
            await made.ready("p")
            made.clock.advance(31)
            found = await made.phase("p", "Failed")
            text = "Pod was active on the node longer than the specified deadline"
            assert (found["status"]["reason"], found["status"]["message"]) == ("DeadlineExceeded", text)
            await made.event("DeadlineExceeded", text)
            assert not [item for item in await made.runtime.list_containers() if item.finished_at is None]

    run(scenario())


def test_a_container_tells_why_it_ended() -> None:
    async def scenario() -> None:
        async with bench() as made:
            told = container("c", "sh", "-c", "echo why > /dev/termination-log; exit 1")
            logged = container(
                "d",
                "sh",
                "-c",
                "echo one; echo two; exit 1",
                terminationMessagePolicy="FallbackToLogsOnError",
            )
            await made.create("p", told, logged, restartPolicy="Never")
            found = await made.phase("p", "Failed")
            assert state(found, "c")["state"]["terminated"]["message"] == "why\n"
            assert state(found, "d")["state"]["terminated"]["message"] == "one\ntwo\n"

    run(scenario())


def test_a_pre_stop_sleep_is_part_of_the_grace_period() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", *POLITE, lifecycle={"preStop": {"sleep": {"seconds": 10}}}))
            await made.ready("p")
            await made.delete("p")
            await made.event("Killing", "Stopping container c")
            await asyncio.sleep(0.2)
            assert "running" in state(await made.pod("p") or {})["state"]
            made.clock.advance(10)
            await made.gone("p")

    run(scenario())


def test_a_container_that_ends_at_once_is_called_a_crash_loop_after_a_second() -> None:
    async def scenario() -> None:
        # The next look without a reason is after at least 60 s.
        async with bench(sync_frequency=60.0) as made:
            await made.create("p", container("c", "exit", "2"), restartPolicy="Always")

            async def waiting() -> bool:
                statuses = (await made.pod("p") or {})["status"].get("containerStatuses") or [{}]
                reason = statuses[0].get("state", {}).get("waiting", {}).get("reason")
                return bool(reason == "CrashLoopBackOff" and statuses[0]["restartCount"] == 1)

            await made.until(waiting, "the container waits", 8.0)

    run(scenario())
