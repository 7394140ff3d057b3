"""Sandboxes and containers over the container runtime interface, as a kubelet asks for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from cri_kit import PATIENCE, Node, limits, refusal, serving

from node_api.gen import cri_v1_pb2 as pb

CODE = grpc.StatusCode


def on_a_node(scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving() as node:
            await scenario(node)

    asyncio.run(run())


def test_what_a_kubelet_asks_first() -> None:
    async def scenario(node: Node) -> None:
        version = await node.runtime.Version(pb.VersionRequest(version="0.1.0"))
        assert (version.runtime_name, version.runtime_version) == ("containerd", "2.1.4")
        assert version.runtime_api_version == "v1"
        status = await node.runtime.Status(pb.StatusRequest())
        assert {one.type: one.status for one in status.status.conditions} == {
            "RuntimeReady": True,
            "NetworkReady": True,
        }
        assert [handler.name for handler in status.runtime_handlers] == ["", "runc"]
        assert status.runtime_handlers[0].features.recursive_read_only_mounts
        assert status.features.supplemental_groups_policy
        config = await node.runtime.RuntimeConfig(pb.RuntimeConfigRequest())
        assert config.linux.cgroup_driver == pb.CGROUPFS
        await node.runtime.UpdateRuntimeConfig(pb.UpdateRuntimeConfigRequest())

    on_a_node(scenario)


def test_a_container_from_creation_to_removal() -> None:
    async def scenario(node: Node) -> None:
        sandbox = await node.sandbox()
        container = await node.container(
            sandbox, ["sh", "-c", "echo out; echo err >&2; exit 3"], annotations={"hash": "1"}
        )
        created = await node.status(container)
        assert (created.state, created.started_at) == (pb.CONTAINER_CREATED, 0)
        assert created.image.image == "docker.io/library/busybox:latest"
        assert created.image_ref.startswith("docker.io/library/busybox@sha256:")
        assert dict(created.annotations) == {"hash": "1"}
        await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        ended = await node.ended(container)
        assert (ended.exit_code, ended.reason) == (3, "Error")
        assert created.created_at <= ended.started_at <= ended.finished_at
        assert await node.log(container) == ["out", "err"]
        await node.runtime.RemoveContainer(pb.RemoveContainerRequest(container_id=container))
        code, text = await refusal(node.status(container))
        assert code is CODE.NOT_FOUND
        assert text == f'an error occurred when try to find container "{container}": not found'
        await node.runtime.RemoveContainer(pb.RemoveContainerRequest(container_id=container))
        await node.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
        await node.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

    on_a_node(scenario)


def test_a_sandbox_keeps_what_it_was_given() -> None:
    async def scenario(node: Node) -> None:
        options = pb.NamespaceOption(network=pb.NODE, pid=pb.NODE, ipc=pb.NODE)
        linux = pb.LinuxPodSandboxConfig(
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=options)
        )
        host = await node.sandbox("host", linux=linux, hostname="", handler="runc", attempt=2)
        answer = await node.runtime.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=host))
        status = answer.status
        assert status.linux.namespaces.options == options
        assert (status.network.ip, status.runtime_handler, status.metadata.attempt) == ("", "runc", 2)
        assert dict(status.annotations) == {"note": "kept"}
        own = await node.sandbox("own")
        answer = await node.runtime.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=own))
        assert answer.status.network.ip == "10.244.7.2"
        assert answer.status.state == pb.SANDBOX_READY
        assert answer.timestamp > answer.status.created_at
        await node.runtime.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=own))
        answer = await node.runtime.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id=own))
        assert (answer.status.state, answer.status.network.ip) == (pb.SANDBOX_NOTREADY, "")
        container = await node.container(host, ["hostname"])
        await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        await node.ended(container)
        assert await node.log(container) == ["n1"]

    on_a_node(scenario)


def test_what_does_not_exist_is_not_found_and_other_errors_are_unknown() -> None:
    async def scenario(node: Node) -> None:
        code, text = await refusal(
            node.runtime.PodSandboxStatus(pb.PodSandboxStatusRequest(pod_sandbox_id="x"))
        )
        assert (code, text) == (CODE.NOT_FOUND, "an error occurred when try to find sandbox: not found")
        assert (await refusal(node.container("x", ["true"])))[0] is CODE.NOT_FOUND
        for call in (
            node.runtime.StartContainer(pb.StartContainerRequest(container_id="x")),
            node.runtime.UpdateContainerResources(pb.UpdateContainerResourcesRequest(container_id="x")),
            node.runtime.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id="x")),
            node.runtime.ContainerStats(pb.ContainerStatsRequest(container_id="x")),
            node.runtime.PodSandboxStats(pb.PodSandboxStatsRequest(pod_sandbox_id="x")),
            node.runtime.ExecSync(pb.ExecSyncRequest(container_id="x", cmd=["true"])),
        ):
            assert (await refusal(call))[0] is CODE.NOT_FOUND
        await node.sandbox("twice")
        code, text = await refusal(node.sandbox("twice"))
        assert code is CODE.UNKNOWN
        assert 'name "twice_default_uid-twice_0" is reserved for' in text
        assert (await refusal(node.sandbox("other", handler="gvisor")))[1] == (
            'failed to get sandbox runtime: no runtime for "gvisor" is configured'
        )

    on_a_node(scenario)


def test_a_command_that_is_not_there_fails_the_start() -> None:
    async def scenario(node: Node) -> None:
        container = await node.container(await node.sandbox(), ["foo"])
        code, text = await refusal(
            node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        )
        assert code is CODE.UNKNOWN
        assert text.endswith('exec: "foo": executable file not found in $PATH')
        ended = await node.status(container)
        assert (ended.state, ended.exit_code, ended.reason) == (pb.CONTAINER_EXITED, 128, "StartError")
        assert ended.message == text

    on_a_node(scenario)


def test_lists_are_filtered() -> None:
    async def scenario(node: Node) -> None:
        first, second = await node.sandbox("a"), await node.sandbox("b")
        await node.runtime.StopPodSandbox(pb.StopPodSandboxRequest(pod_sandbox_id=second))
        container = await node.container(first, ["pause"])
        other = await node.container(second, ["true"], name="d")
        await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))

        async def sandboxes(**wanted: Any) -> list[str]:
            request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(**wanted))
            items = (await node.runtime.ListPodSandbox(request)).items
            stream = node.runtime.StreamPodSandboxes(pb.StreamPodSandboxesRequest(filter=request.filter))
            streamed = [one async for message in stream for one in message.pod_sandboxes]
            assert streamed == list(items)
            return [one.id for one in items]

        async def containers(**wanted: Any) -> list[str]:
            request = pb.ListContainersRequest(filter=pb.ContainerFilter(**wanted))
            items = (await node.runtime.ListContainers(request)).containers
            stream = node.runtime.StreamContainers(pb.StreamContainersRequest(filter=request.filter))
            streamed = [one async for message in stream for one in message.containers]
            assert streamed == list(items)
            return [one.id for one in items]

        assert await sandboxes() == [first, second]
        assert await sandboxes(id=second) == [second]
        assert await sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_READY)) == [first]
        assert await sandboxes(state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)) == [second]
        assert await sandboxes(label_selector={"io.kubernetes.pod.name": "b"}) == [second]
        assert await sandboxes(label_selector={"io.kubernetes.pod.name": "c"}) == []
        assert await containers() == [container, other]
        assert await containers(id=other) == [other]
        assert await containers(pod_sandbox_id=first) == [container]
        assert await containers(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == [other]
        assert await containers(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)) == [container]
        assert await containers(label_selector={"io.kubernetes.container.name": "d"}) == [other]
        assert await containers(pod_sandbox_id=first, id=other) == []

    on_a_node(scenario)


def test_a_stop_waits_for_the_program_and_kills_it_in_the_end() -> None:
    async def scenario(node: Node) -> None:
        polite = await node.started("sh", "-c", "trap 'exit 7' TERM; echo up; sleep 9999 & wait")
        await node.log(polite, lines=1)
        await node.runtime.StopContainer(pb.StopContainerRequest(container_id=polite, timeout=30))
        assert (await node.status(polite)).exit_code == 7
        deaf = await node.container(await node.sandbox("deaf"), ["sleep", "9999"])
        await node.runtime.StartContainer(pb.StartContainerRequest(container_id=deaf))
        await node.runtime.StopContainer(pb.StopContainerRequest(container_id=deaf, timeout=1))
        ended = await node.status(deaf)
        assert (ended.exit_code, ended.reason) == (137, "Error")
        assert ended.finished_at - ended.started_at >= 1_000_000_000

    on_a_node(scenario)


def test_a_caller_that_gives_up_stops_nothing() -> None:
    async def scenario(node: Node) -> None:
        container = await node.started("sleep", "9999")
        stop = node.runtime.StopContainer(
            pb.StopContainerRequest(container_id=container, timeout=600), timeout=0.2
        )
        assert (await refusal(stop))[0] is CODE.DEADLINE_EXCEEDED
        assert (await node.status(container)).state == pb.CONTAINER_RUNNING
        await node.runtime.StopContainer(pb.StopContainerRequest(container_id=container, timeout=0))
        assert (await node.status(container)).exit_code == 137

    on_a_node(scenario)


def test_a_program_sees_what_the_kubelet_gave() -> None:
    async def scenario(node: Node) -> None:
        token = node.root / "token"
        token.mkdir()
        (token / "value").write_text("secret\n")
        security = pb.LinuxContainerSecurityContext(
            run_as_user=pb.Int64Value(value=1000),
            run_as_group=pb.Int64Value(value=2000),
            supplemental_groups=[3000],
        )
        resources = pb.LinuxContainerResources(cpu_shares=512, memory_limit_in_bytes=64 << 20)
        container = await node.started(
            "sh",
            "-c",
            "cat /token/value; probe --exit 0",
            envs=[pb.KeyValue(key="GREETING", value="grüße".encode())],
            mounts=[
                pb.Mount(container_path="/token", host_path=str(token), readonly=True),
                pb.Mount(
                    container_path="/shared",
                    host_path=str(token),
                    propagation=pb.PROPAGATION_HOST_TO_CONTAINER,
                ),
                pb.Mount(container_path="/data", image=pb.ImageSpec(image="registry.example/data:1")),
            ],
            linux=pb.LinuxContainerConfig(security_context=security, resources=resources),
            stop_signal=23,
        )
        status = await node.ended(container)
        secret, document = await node.log(container)
        seen = json.loads(document)
        assert secret == "secret"
        assert seen["environment"]["GREETING"] == "grüße"
        assert (seen["hostname"], seen["environment"]["HOSTNAME"]) == ("pod", "pod")
        assert seen["user"] == {"uid": 1000, "gid": 2000, "groups": [2000, 3000]}
        assert seen["limits"] == {"cpuShares": 512, "memory": 64 << 20}
        assert {mount["destination"]: mount["options"] for mount in seen["mounts"]} == {
            "/token": ["rbind", "rprivate", "ro"],
            "/shared": ["rbind", "rslave", "rw"],
            "/data": ["rbind", "rprivate", "ro"],
        }
        assert status.user.linux == pb.LinuxContainerUser(
            uid=1000, gid=2000, supplemental_groups=[2000, 3000]
        )
        assert status.resources.linux == resources
        assert status.stop_signal == 23
        assert [mount.container_path for mount in status.mounts] == ["/token", "/shared", "/data"]

    on_a_node(scenario)


def test_changed_limits_reach_a_running_program() -> None:
    async def scenario(node: Node) -> None:
        container = await node.started(
            "sh",
            "-c",
            "trap 'probe --exit 0' TERM; echo up; sleep 9999 & wait",
            **limits(cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, memory_limit_in_bytes=1 << 20),
        )
        await node.log(container, lines=1)
        change = pb.LinuxContainerResources(cpu_shares=1024, cpu_quota=-1, memory_limit_in_bytes=2 << 20)
        await node.runtime.UpdateContainerResources(
            pb.UpdateContainerResourcesRequest(container_id=container, linux=change)
        )
        given = (await node.status(container)).resources.linux
        assert (given.cpu_shares, given.cpu_quota, given.cpu_period) == (1024, -1, 100_000)
        await node.runtime.StopContainer(pb.StopContainerRequest(container_id=container, timeout=30))
        (_, document) = await node.log(container)
        assert json.loads(document)["limits"] == {
            "cpuPeriod": 100_000,
            "cpuShares": 1024,
            "memory": 2 << 20,
        }

    on_a_node(scenario)


def test_a_log_is_rotated() -> None:
    async def scenario(node: Node) -> None:
        container = await node.started(
            "sh", "-c", "echo one; trap 'echo two; exit 0' TERM; sleep 9999 & wait"
        )
        await node.log(container, lines=1)
        path = node.root / "logs" / "pod" / "c" / "0.log"
        path.rename(path.with_suffix(".old"))
        await node.runtime.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container))
        assert path.read_text() == ""
        await node.runtime.StopContainer(pb.StopContainerRequest(container_id=container, timeout=30))
        assert await node.log(container) == ["two"]
        assert path.with_suffix(".old").read_text().endswith(" stdout F one\n")
        code, text = await refusal(
            node.runtime.ReopenContainerLog(pb.ReopenContainerLogRequest(container_id=container))
        )
        assert (code, text) == (CODE.UNKNOWN, "container is not running")

    on_a_node(scenario)


def test_many_containers_at_once_do_not_slow_each_other() -> None:
    async def scenario(node: Node) -> None:
        async def one(number: int) -> None:
            sandbox = await node.sandbox(f"p{number}")
            container = await node.container(sandbox, ["sh", "-c", "sleep 0.2; exit 4"])
            await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
            assert (await node.ended(container)).exit_code == 4
            await node.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

        async with asyncio.timeout(3 * PATIENCE):
            await asyncio.gather(*(one(number) for number in range(100)))
        assert not (await node.runtime.ListPodSandbox(pb.ListPodSandboxRequest())).items
        assert not (await node.runtime.ListContainers(pb.ListContainersRequest())).containers

    on_a_node(scenario)
