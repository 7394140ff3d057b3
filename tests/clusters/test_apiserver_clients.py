"""Unmodified Python clients against the API server (api-machinery section 19)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver_harness import ADMIN, pod, resource_slice, serve
from kubernetes import client, dynamic, watch
from kubernetes.client.rest import ApiException

from clusters.embedded.apiserver.thread import ServerThread


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    server = serve()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ca_file(server: ServerThread, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tls") / "ca.pem"
    path.write_bytes(server.ca_pem)
    return path


@pytest.fixture
def api(server: ServerThread, ca_file: Path) -> Iterator[Any]:
    settings = client.Configuration(host=server.url)
    settings.ssl_ca_cert = str(ca_file)
    settings.proxy = None
    settings.api_key = {"authorization": f"Bearer {ADMIN}"}
    with client.ApiClient(settings) as made:
        yield made


def test_typed_client(api: Any) -> None:
    core = client.CoreV1Api(api)
    assert client.VersionApi(api).get_code().git_version == "v1.37.2"
    core.create_namespaced_pod("default", pod("typed"))
    stored = core.read_namespaced_pod("typed", "default")
    assert stored.status.phase == "Pending"
    patched = core.patch_namespaced_pod("typed", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}
    with pytest.raises(ApiException) as conflict:
        core.create_namespaced_pod("default", pod("typed"))
    assert conflict.value.status == 409
    core.delete_namespaced_pod("typed", "default")
    assert core.list_namespaced_pod("default").items == []


def test_typed_client_of_device_kinds(api: Any) -> None:
    resources = client.ResourceV1Api(api)
    resources.create_resource_slice(resource_slice("typed"))
    listed = resources.list_resource_slice(field_selector="spec.driver=gpu.example.com")
    assert [item.metadata.name for item in listed.items] == ["typed"]
    typed = listed.items[0]
    typed.spec.pool.generation = 5
    assert resources.replace_resource_slice("typed", typed).spec.pool.generation == 5


def test_watch(api: Any) -> None:
    core = client.CoreV1Api(api)
    stream = watch.Watch()
    seen = []
    core.create_namespaced_config_map("kube-public", {"metadata": {"name": "w1"}})
    for event in stream.stream(core.list_namespaced_config_map, "kube-public", timeout_seconds=10):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            core.create_namespaced_config_map("kube-public", {"metadata": {"name": "w2"}})
        else:
            stream.stop()
    assert seen == [("ADDED", "w1"), ("ADDED", "w2")]


def test_dynamic_client(api: Any, tmp_path: Path) -> None:
    found = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    claims = found.resources.get(api_version="resource.k8s.io/v1", kind="ResourceClaim")
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "dynamic"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    }
    assert claims.create(body=body, namespace="default").spec.devices.requests[0].exactly.count == 1
    applied = claims.server_side_apply(
        body={**body, "metadata": {"name": "dynamic", "labels": {"x": "y"}}},
        name="dynamic",
        namespace="default",
        field_manager="tests",
        force_conflicts=True,
    )
    assert applied.metadata.labels.x == "y"


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
def test_kr8s(server: ServerThread, ca_file: Path, tmp_path: Path) -> None:
    import kr8s.asyncio
    from kr8s.asyncio.objects import ConfigMap

    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [
                    {"name": "c", "cluster": {"server": server.url, "certificate-authority": str(ca_file)}}
                ],
                "users": [{"name": "u", "user": {"token": ADMIN}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            }
        )
    )

    async def session() -> None:
        found = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
        try:
            await use(found)
        finally:
            # kr8s keeps its connections until the process ends.
            await found._session.aclose()

    async def use(found: Any) -> None:
        assert (await found.version())["gitVersion"] == "v1.37.2"
        kinds = {resource["kind"] for resource in await found.api_resources()}
        assert {"Pod", "ResourceSlice", "ResourceClaim"} <= kinds
        stored = await ConfigMap(
            {"metadata": {"name": "kr8s", "namespace": "default"}, "data": {"a": "b"}}, api=found
        )
        await stored.create()
        await stored.label({"x": "y"})
        await stored.patch({"data": {"a": "c"}})
        names = [item.name async for item in found.get("configmaps", namespace="default")]
        assert "kr8s" in names
        spaces = [item.name async for item in found.get("namespaces")]
        assert "kube-system" in spaces
        assert await stored.exists()
        await stored.delete()
        assert not await stored.exists()

    asyncio.run(session())
