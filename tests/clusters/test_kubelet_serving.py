from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import grpc
import pytest
from kubelet_claims_harness import claim, claimed_pod
from kubelet_harness import POLITE, Bench, bench, container, driver, run
from small_driver import NAME

from clusters.containers.log_reader import LogOptions
from clusters.embedded.kubelet.serving.log_options import LogRequestError, read_options
from clusters.tls import client_context, generate
from node_api import sockets
from node_api.gen import pod_resources_v1_pb2 as messages
from node_api.gen.pod_resources_v1_pb2_grpc import PodResourcesListerStub


async def port(made: Bench) -> int:
    async def check() -> Any:
        node = await made.client.find("v1", "nodes", "n1")
        return node and node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]

    return int(await made.until(check, "the node is registered"))


@contextlib.asynccontextmanager
async def http(made: Bench, token: str = "t") -> AsyncIterator[Any]:
    number = await port(made)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(f"https://127.0.0.1:{number}", headers=headers) as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path, ssl=False) as response:
                return response.status, await response.text()

        get.session = session  # type: ignore[attr-defined]
        yield get


def test_only_the_api_server_is_answered() -> None:
    async def scenario() -> None:
        async with bench() as made:
            for token in ("", "wrong"):
                async with http(made, token) as get:
                    assert (await get("/pods"))[0] == 401
                    assert await get("/healthz") == (200, "ok")
            async with http(made) as get:
                assert (await get("/pods"))[0] == 200
                assert (await get("/nosuch"))[0] == 404

    run(scenario())


def test_the_given_certificate_is_used() -> None:
    async def scenario() -> None:
        certificates = generate("127.0.0.1")
        async with bench(certificates=certificates) as made:
            number = await port(made)
            async with aiohttp.ClientSession() as session:
                url = f"https://127.0.0.1:{number}/healthz"
                async with session.get(url, ssl=client_context(certificates.ca_pem)) as response:
                    assert response.status == 200

    run(scenario())


def test_logs_of_a_container() -> None:
    async def scenario() -> None:
        async with bench() as made, http(made) as get:
            await made.create("p", container("c", "sh", "-c", "echo one; echo two; sleep 9999"))
            await made.ready("p")

            async def logged() -> bool:
                return (await get("/containerLogs/default/p/c")) == (200, "one\ntwo\n")

            await made.until(logged, "the container has logged")
            assert await get("/containerLogs/default/p/c?tailLines=1") == (200, "two\n")
            assert await get("/containerLogs/default/p/c?limitBytes=2") == (200, "on")
            stamped = (await get("/containerLogs/default/p/c?timestamps=true"))[1]
            assert [line.split(" ", 1)[1] for line in stamped.splitlines()] == ["one", "two"]
            assert await get("/containerLogs/default/q/c") == (404, 'pod "q" does not exist')
            text = 'container "x" not found in pod "p"'
            assert await get("/containerLogs/default/p/x") == (404, text)
            text = 'previous terminated container "c" in pod "p" not found'
            assert await get("/containerLogs/default/p/c?previous=true") == (400, text)

    run(scenario())


def test_a_followed_log_ends_with_its_container() -> None:
    async def scenario() -> None:
        async with bench() as made, http(made) as get:
            await made.create(
                "p", container("c", "sh", "-c", "echo one; sleep 60; echo two"), restartPolicy="Never"
            )
            await made.ready("p")
            path = "/containerLogs/default/p/c?follow=true"
            async with get.session.get(path, ssl=False) as response:
                assert await asyncio.wait_for(response.content.readline(), 5) == b"one\n"
                made.clock.advance(60)
                assert await asyncio.wait_for(response.content.read(), 5) == b"two\n"

    run(scenario())


def test_logs_of_the_container_before() -> None:
    async def scenario() -> None:
        async with bench() as made, http(made) as get:
            await made.create("p", container("c", "sh", "-c", "echo run; exit 1"))

            async def previous() -> bool:
                return (await get("/containerLogs/default/p/c?previous=true")) == (200, "run\n")

            await made.until(previous, "the first container has a log")

    run(scenario())


def test_a_container_that_waits_has_no_log() -> None:
    async def scenario() -> None:
        async with bench() as made, http(made) as get:
            waiting = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
            await made.create("p", waiting, volumes=[{"name": "v", "configMap": {"name": "nosuch"}}])
            await made.event("FailedMount", "nosuch")
            text = 'container "c" in pod "p" is waiting to start: ContainerCreating'
            assert await get("/containerLogs/default/p/c") == (400, text)

    run(scenario())


def test_options_that_make_no_sense_are_refused() -> None:
    assert read_options({"follow": "true", "tailLines": "3"}, 100.0) == LogOptions(follow=True, tail=3)
    assert read_options({"sinceSeconds": "30"}, 100.0) == LogOptions(since=70.0)
    with pytest.raises(LogRequestError) as caught:
        read_options({"tailLines": "many"}, 0.0)
    assert caught.value.status == 400
    with pytest.raises(LogRequestError) as caught:
        read_options({"limitBytes": "0"}, 0.0)
    assert caught.value.status == 422


def stub_calls(made: Bench, name: str) -> tuple[Any, Any, Any, str]:
    """List, Get of the Pod, GetAllocatableResources, and the error for a Pod that is not there."""
    with sockets.channel(made.root / "pod-resources" / "kubelet.sock") as channel:
        stub = PodResourcesListerStub(channel)
        listed = stub.List(messages.ListPodResourcesRequest(), timeout=5)
        request = messages.GetPodResourcesRequest(pod_name=name, pod_namespace="default")
        found = stub.Get(request, timeout=5)
        free = stub.GetAllocatableResources(messages.AllocatableResourcesRequest(), timeout=5)
        try:
            stub.Get(messages.GetPodResourcesRequest(pod_name="nosuch", pod_namespace="default"), timeout=5)
        except grpc.RpcError as error:
            return listed, found, free, f"{error.code()} {error.details()}"  # type: ignore[attr-defined]
    raise AssertionError("a Pod that is not there was found")


def test_the_pod_resources_api_tells_devices() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made):
            made_claim = await claim(made)
            own = container("c", *POLITE, resources={"claims": [{"name": "claim"}]})
            init = [container("i", "exit", "0"), container("s", restartPolicy="Always")]
            pod = await made.create(
                "p",
                own,
                container("d"),
                initContainers=init,
                resourceClaims=[{"name": "claim", "resourceClaimName": "claim"}],
            )
            await made.reserve("claim", pod)
            await made.ready("p")
            listed, found, free, error = await asyncio.to_thread(stub_calls, made, "p")
            assert [item.name for item in listed.pod_resources] == ["p"]
            containers = found.pod_resources.containers
            assert [item.name for item in containers] == ["s", "c", "d"]
            assert [len(item.dynamic_resources) for item in containers] == [0, 1, 0]
            (resource,) = containers[1].dynamic_resources
            assert (resource.claim_name, resource.claim_namespace) == ("claim", "default")
            (device,) = resource.claim_resources
            assert (device.driver_name, device.pool_name, device.device_name) == (NAME, "p", "d")
            assert [item.name for item in device.cdi_devices] == [f"a.com/c={made_claim['metadata']['uid']}"]
            assert free == messages.AllocatableResourcesResponse()
            assert error == "StatusCode.UNKNOWN pod nosuch in namespace default not found"

    run(scenario())


def test_metrics_count_claims_operations_and_calls() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made), http(made) as get:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            code, text = await get("/metrics")
            assert code == 200
            lines = text.splitlines()
            assert 'dra_resource_claims_in_use{driver_name="<any>"} 1' in lines
            assert f'dra_resource_claims_in_use{{driver_name="{NAME}"}} 1' in lines
            method = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
            labels = f'driver_name="{NAME}",method_name="{method}",grpc_status_code="OK"'
            assert f"dra_grpc_operations_duration_seconds_count{{{labels}}} 1" in lines
            assert any(
                line.startswith(
                    'dra_operations_duration_seconds_bucket{operation_name="PrepareResources",is_error="false",'
                )
                for line in lines
            )

    run(scenario())
