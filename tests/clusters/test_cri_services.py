"""What a kubelet asks a runtime for besides containers: devices, events, images, usage, commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from cri_kit import PATIENCE, Node, refusal, serving

from clusters.local.cri.rpc import service, status_code
from node_api.gen import cri_v1_pb2 as pb

CODE = grpc.StatusCode
SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.com/gpu",
    "devices": [{"name": "g0", "containerEdits": {"env": ["GPU=g0"]}}],
}


def on_a_node(scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving() as node:
            await scenario(node)

    asyncio.run(run())


def test_devices_are_resolved_when_a_container_is_created() -> None:
    async def scenario(node: Node) -> None:
        (node.root / "cdi" / "acme.json").write_text(json.dumps(SPEC))
        container = await node.started(
            "probe", "--exit", "0", CDI_devices=[pb.CDIDevice(name="acme.com/gpu=g0")]
        )
        await node.ended(container)
        seen = json.loads((await node.log(container))[0])
        assert (seen["environment"]["GPU"], seen["cdiDevices"]) == ("g0", ["acme.com/gpu=g0"])
        (node.root / "cdi" / "acme.json").unlink()
        code, text = await refusal(
            node.container(
                await node.sandbox("b"), ["true"], CDI_devices=[pb.CDIDevice(name="acme.com/gpu=g0")]
            )
        )
        assert code is CODE.UNKNOWN
        assert text == (
            "failed to create containerd container: CDI device injection failed: "
            "unresolvable CDI devices acme.com/gpu=g0"
        )

    on_a_node(scenario)


def test_events_tell_what_happens_in_order() -> None:
    async def scenario(node: Node) -> None:
        stream = node.runtime.GetContainerEvents(pb.GetEventsRequest())
        found: list[Any] = []

        async def read() -> None:
            async for event in stream:
                found.append(event)

        reader = asyncio.create_task(read())
        async with asyncio.timeout(PATIENCE):
            # The stream is open when a first event has come through.
            number = 0
            while not found:
                await node.sandbox(f"first{number}")
                number += 1
                await asyncio.sleep(0.02)
            sandbox = await node.sandbox()
            container = await node.container(sandbox, ["exit", "3"])
            await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
            await node.ended(container)
            await node.runtime.RemovePodSandbox(pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
            while not found or found[-1].container_id != sandbox or found[-1].container_event_type != 3:
                await asyncio.sleep(0.01)
        mine = [event for event in found if event.container_id in (sandbox, container)]
        names = {sandbox: "sandbox", container: "container"}
        told = [
            (names[event.container_id], pb.ContainerEventType.Name(event.container_event_type)[10:-6])
            for event in mine
        ]
        assert told == [
            ("sandbox", "CREATED"),
            ("sandbox", "STARTED"),
            ("container", "CREATED"),
            ("container", "STARTED"),
            ("container", "STOPPED"),
            ("sandbox", "STOPPED"),
            ("container", "DELETED"),
            ("sandbox", "DELETED"),
        ]
        assert all(event.pod_sandbox_status.metadata.uid == "uid-pod" for event in mine)
        assert mine[4].containers_statuses[0].exit_code == 3
        assert mine[4].containers_statuses[0].state == pb.CONTAINER_EXITED
        stream.cancel()
        await asyncio.wait([reader])

    on_a_node(scenario)


def test_streams_end_with_the_server() -> None:
    async def scenario(node: Node) -> None:
        stream = node.runtime.GetContainerEvents(pb.GetEventsRequest())
        await node.sandbox()
        waiting = asyncio.ensure_future(stream.read())
        await node.sandbox("other")
        await node.server.close()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([waiting])
        assert not node.config.socket.exists()

    on_a_node(scenario)


def test_every_image_is_there_and_has_an_id_to_create_containers_with() -> None:
    async def scenario(node: Node) -> None:
        answer = await node.images.ImageStatus(
            pb.ImageStatusRequest(image=pb.ImageSpec(image="ubuntu:22.04"))
        )
        image = answer.image
        assert list(image.repo_tags) == ["docker.io/library/ubuntu:22.04"]
        assert image.id.startswith("sha256:")
        pulled = await node.images.PullImage(pb.PullImageRequest(image=pb.ImageSpec(image="ubuntu:22.04")))
        assert pulled.image_ref == image.id
        listed = (await node.images.ListImages(pb.ListImagesRequest())).images
        assert list(listed) == [image]
        streamed = [
            one
            async for message in node.images.StreamImages(pb.StreamImagesRequest())
            for one in message.images
        ]
        assert streamed == [image]
        other = pb.ImageFilter(image=pb.ImageSpec(image="other"))
        assert not (await node.images.ListImages(pb.ListImagesRequest(filter=other))).images
        # A kubelet creates containers with the id of the image. The command is the image's, a shell, which ends.
        container = await node.started(image=image.id)
        status = await node.ended(container)
        assert (status.image.image, status.exit_code) == ("docker.io/library/ubuntu:22.04", 0)
        assert (status.image_ref, status.image_id) == (image.repo_digests[0], image.id)
        await node.images.RemoveImage(pb.RemoveImageRequest(image=pb.ImageSpec(image=image.id)))
        assert not (await node.images.ListImages(pb.ListImagesRequest())).images
        gone = await node.images.ImageStatus(pb.ImageStatusRequest(image=pb.ImageSpec(image=image.id)))
        assert not gone.HasField("image")
        code, text = await refusal(node.container(await node.sandbox("b"), ["true"], image=image.id))
        assert (code, text) == (CODE.NOT_FOUND, f'failed to resolve image "{image.id}": not found')

    on_a_node(scenario)


def test_images_lie_on_the_file_system_of_the_runtime() -> None:
    async def scenario(node: Node) -> None:
        answer = await node.images.ImageFsInfo(pb.ImageFsInfoRequest())
        (found,) = answer.image_filesystems
        assert found.fs_id.mountpoint == str(node.config.root)
        info = os.statvfs(node.config.root)
        assert 0 < found.used_bytes.value < info.f_blocks * info.f_frsize
        assert answer.container_filesystems[0] == found

    on_a_node(scenario)


def test_running_containers_use_nothing() -> None:
    async def scenario(node: Node) -> None:
        sandbox = await node.sandbox()
        container = await node.container(sandbox, ["pause"])
        await node.runtime.StartContainer(pb.StartContainerRequest(container_id=container))
        await node.container(sandbox, ["pause"], name="never-started")
        listed = (await node.runtime.ListContainerStats(pb.ListContainerStatsRequest())).stats
        assert [stats.attributes.id for stats in listed] == [container]
        answer = await node.runtime.ContainerStats(pb.ContainerStatsRequest(container_id=container))
        stats = answer.stats
        assert stats.cpu.HasField("usage_core_nano_seconds")
        assert (stats.cpu.usage_core_nano_seconds.value, stats.memory.working_set_bytes.value) == (0, 0)
        assert stats.writable_layer.fs_id.mountpoint == str(node.config.root)
        whole = (await node.runtime.ListPodSandboxStats(pb.ListPodSandboxStatsRequest())).stats
        assert [[one.attributes.id for one in stats.linux.containers] for stats in whole] == [[container]]
        single = await node.runtime.PodSandboxStats(pb.PodSandboxStatsRequest(pod_sandbox_id=sandbox))
        assert single.stats.linux.process.process_count.value == 1
        metrics = (await node.runtime.ListPodSandboxMetrics(pb.ListPodSandboxMetricsRequest())).pod_metrics
        assert [one.pod_sandbox_id for one in metrics] == [sandbox]
        assert not (await node.runtime.ListMetricDescriptors(pb.ListMetricDescriptorsRequest())).descriptors

    on_a_node(scenario)


def test_commands_of_probes_run_and_others_are_refused_with_a_way_out() -> None:
    async def scenario(node: Node) -> None:
        container = await node.started("sh", "-c", "trap 'exit 0' TERM; echo up; sleep 9999 & wait")
        await node.log(container, lines=1)
        ran = await node.runtime.ExecSync(
            pb.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo out; echo err >&2; exit 3"])
        )
        assert (ran.stdout, ran.stderr, ran.exit_code) == (b"out\n", b"err\n", 3)
        code, text = await refusal(
            node.runtime.ExecSync(pb.ExecSyncRequest(container_id=container, cmd=["sleep", "99"], timeout=1))
        )
        assert code is CODE.DEADLINE_EXCEEDED
        assert text == "failed to exec in container: timeout 1s exceeded: context deadline exceeded"
        for call, what in (
            (node.runtime.Exec(pb.ExecRequest(container_id=container)), "no command can be run"),
            (node.runtime.Attach(pb.AttachRequest(container_id=container)), "nothing can be attached"),
            (node.runtime.PortForward(pb.PortForwardRequest()), "no port of theirs can be reached"),
            (node.runtime.CheckpointContainer(pb.CheckpointContainerRequest()), "no checkpoint"),
        ):
            code, text = await refusal(call)
            assert code is CODE.UNIMPLEMENTED
            assert text.startswith("this is drakit's simulated container runtime: its containers are not")
            assert what in text
            assert "kubectl logs" in text

    on_a_node(scenario)


def test_names_of_codes_are_those_of_go() -> None:
    assert status_code("NotFound") is CODE.NOT_FOUND
    assert status_code("Unknown") is CODE.UNKNOWN
    assert status_code("DeadlineExceeded") is CODE.DEADLINE_EXCEEDED


def test_a_service_must_be_whole() -> None:
    async def answer(_request: Any) -> pb.ListImagesResponse:
        return pb.ListImagesResponse()

    with pytest.raises(ValueError, match="ImageService: these methods are on one side only: ImageFsInfo, "):
        service("ImageService", {"ListImages": answer})
