from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_harness import POLITE, Bench, bench, container, run

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.kubelet.config import KubeletPaths
from clusters.embedded.kubelet.pods.environment import service_variables
from clusters.embedded.kubelet.pods.expansion import expand
from clusters.embedded.kubelet.pods.volumes import PodVolumes


async def config_map(made: Bench, name: str, **data: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    await made.client.create("v1", "configmaps", body, "default")


async def secret(made: Bench, name: str, **data: str) -> None:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    await made.client.create("v1", "secrets", body, "default")


async def view(made: Bench, name: str = "c") -> Any:
    for found in await made.runtime.list_containers():
        if found.config.name == name:
            return made.runtime.container_view(found.id)
    raise AssertionError(f"no container {name}")


def test_environment_from_all_sources() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await config_map(made, "cm", COLOR="red", SIZE="xl")
            await secret(made, "sec", PASSWORD="geheim")
            env = [
                {"name": "PLAIN", "value": "one"},
                {"name": "USED", "value": "$(PLAIN)-$(PRE_COLOR)-$(NOSUCH)-$$(PLAIN)"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {
                    "name": "MEMORY",
                    "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}},
                },
                {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "SIZE"}}},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "PASSWORD"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y", "optional": True}}},
            ]
            sources = [
                {"prefix": "PRE_", "configMapRef": {"name": "cm"}},
                {"secretRef": {"name": "nosuch", "optional": True}},
            ]
            resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "100Mi"}}
            own = container("c", *POLITE, env=env, envFrom=sources, resources=resources)
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p", "labels": {"app": "x"}},
                "spec": {"nodeName": "n1", "containers": [own]},
            }
            await made.client.create("v1", "pods", body, "default")
            found = await made.ready("p")
            seen = (await view(made)).environment
            expected = {
                "PLAIN": "one",
                "USED": "one-red-$(NOSUCH)-$(PLAIN)",
                "NODE": "n1",
                "POD": "p",
                "IP": found["status"]["podIP"],
                "HOST_IP": "127.0.0.1",
                "LABEL": "x",
                "CPU": "2",
                "MEMORY": "100",
                "KEY": "xl",
                "SECRET": "geheim",
                "PRE_COLOR": "red",
                "HOSTNAME": "p",
                "KUBERNETES_SERVICE_PORT": "443",
                "KUBERNETES_SERVICE_PORT_HTTPS": "443",
            }
            assert {key: seen.get(key) for key in expected} == expected
            assert "NONE" not in seen

    run(scenario())


def test_a_missing_config_map_is_an_error_of_the_configuration() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made:
            env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]
            await made.create("p", container("c", *POLITE, env=env))
            await made.event("Failed", 'Error: configmap "cm" not found')
            await config_map(made, "cm", other="x")
            await made.event("Failed", "Error: couldn't find key k in ConfigMap default/cm")

            async def waiting() -> Any:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("containerStatuses") or [{"state": {}}]
                return statuses[0]["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"

            await made.until(waiting, "the container waits")
            await made.client.patch("v1", "configmaps", "cm", {"data": {"k": "v"}}, "default")
            await made.ready("p")

    run(scenario())


def test_volumes_hold_what_they_say() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await config_map(made, "cm", a="A", b="B")
            await secret(made, "sec", s="S")
            volumes: list[dict[str, Any]] = [
                {"name": "empty", "emptyDir": {}},
                {"name": "cm", "configMap": {"name": "cm", "items": [{"key": "a", "path": "deep/a.txt"}]}},
                {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o400}},
                {
                    "name": "down",
                    "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
                },
                {
                    "name": "all",
                    "projected": {
                        "sources": [
                            {"configMap": {"name": "cm", "items": [{"key": "b", "path": "b"}]}},
                            {"secret": {"name": "sec"}},
                            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
                        ]
                    },
                },
                {"name": "host", "hostPath": {"path": "/var/lib/x", "type": "DirectoryOrCreate"}},
            ]
            mounts = [{"name": item["name"], "mountPath": f"/{item['name']}"} for item in volumes]
            mounts.append({"name": "empty", "mountPath": "/sub", "subPath": "inner", "readOnly": True})
            await made.create("p", container("c", *POLITE, volumeMounts=mounts), volumes=volumes)
            found = await made.ready("p")
            seen = await view(made)

            def text(path: str) -> str:
                place = seen.host_path(path)
                assert place is not None
                return Path(place).read_text()

            assert text("/cm/deep/a.txt") == "A"
            assert text("/sec/s") == "S"
            assert text("/down/name") == "p"
            assert (text("/all/b"), text("/all/s")) == ("B", "S")
            assert text("/all/token").count(".") == 2
            assert seen.host_path("/sec/s").stat().st_mode & 0o777 == 0o400
            assert seen.host_path("/host") == made.root / "host" / "var" / "lib" / "x"
            assert seen.host_path("/sub").parent == seen.host_path("/empty")
            reported = found["status"]["containerStatuses"][0]["volumeMounts"]
            assert {
                "name": "empty",
                "mountPath": "/sub",
                "readOnly": True,
                "recursiveReadOnly": "Disabled",
            } in reported
            folder = made.root / "pods" / found["metadata"]["uid"]
            assert folder.exists()
            await made.delete("p")
            await made.gone("p")

            async def removed() -> bool:
                return not folder.exists()

            await made.until(removed, "the files of the pod are removed")

    run(scenario())


def test_a_missing_volume_is_waited_for() -> None:
    async def scenario() -> None:
        async with bench() as made:
            mounts = [{"name": "v", "mountPath": "/v"}]
            await made.create(
                "p", container(volumeMounts=mounts), volumes=[{"name": "v", "configMap": {"name": "cm"}}]
            )
            await made.event(
                "FailedMount", 'MountVolume.SetUp failed for volume "v" : configmap "cm" not found'
            )
            found = await made.waiting("p")
            assert found["status"]["containerStatuses"][0]["state"] == {
                "waiting": {"reason": "ContainerCreating"}
            }
            await config_map(made, "cm", a="b")
            await made.ready("p")

    run(scenario())


def test_a_volume_that_nobody_mounts_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", volumes=[{"name": "v", "configMap": {"name": "missing"}}])
            await made.ready("p")

    run(scenario())


def test_a_host_path_of_another_kind_is_refused() -> None:
    async def scenario() -> None:
        async with bench() as made:
            place = made.root / "host" / "folder"
            place.mkdir(parents=True)
            for name, path, kind, text in (
                (
                    "nothing",
                    "/x",
                    "Directory",
                    'failed, /x is not a directory, unable to determine its type: path "/x" does not exist',
                ),
                ("folder", "/folder", "Socket", "failed: /folder is not a socket file, it's a Directory"),
                ("file", "/folder", "FileOrCreate", "failed: /folder is not a file, it's a Directory"),
            ):
                own = container(volumeMounts=[{"name": name, "mountPath": "/v"}])
                await made.create(
                    name, own, volumes=[{"name": name, "hostPath": {"path": path, "type": kind}}]
                )
                await made.event(
                    "FailedMount",
                    f'MountVolume.SetUp failed for volume "{name}" : hostPath type check {text}',
                )

    run(scenario())


def service(name: str, namespace: str, *ports: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "10.0.0.1", "ports": list(ports)},
    }


def test_services_become_variables() -> None:
    services = [
        service("kubernetes", "default", {"name": "https", "port": 443, "protocol": "TCP"}),
        service("my-db", "a", {"port": 5432}),
        service("other", "b", {"port": 1}),
    ]
    alone = service_variables(services, "a", links=False)
    assert alone == {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.0.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
    }
    linked = service_variables(services, "a", links=True)
    assert linked["MY_DB_SERVICE_PORT"] == "5432"
    assert not [key for key in linked if key.startswith("OTHER")]


def test_references_are_expanded_as_in_kubernetes() -> None:
    scope = {"A": "x", "B": "$(A)"}
    assert expand("$(A) $(B) $(C) $$(A) $$$(A) $(A $A $", scope) == "x $(A) $(C) $(A) $x $(A $A $"
    assert expand("$(A)", {}, scope) == "x"


@given(st.text(alphabet="$()Aab ", max_size=20))
def test_texts_without_known_names_keep_their_references(text: str) -> None:
    # Only the escape changes anything, and it never makes a text longer.
    assert len(expand(text, {})) == len(text) - expand_escapes(text)


def expand_escapes(text: str) -> int:
    """How many dollar signs are written twice, read from left to right."""
    count = position = 0
    while position < len(text) - 1:
        if text[position] != "$":
            position += 1
        elif text[position + 1] == "$":
            count += 1
            position += 2
        elif text[position + 1] == "(" and ")" in text[position:]:
            position = text.index(")", position) + 1
        else:
            position += 2
    return count


def test_a_variable_cannot_lead_a_mount_out_of_its_volume() -> None:
    async def scenario() -> None:
        async with bench() as made:
            for name, value, text in (
                ("up", "../../../../../escaped", "unable to provision SubPath `{}`: must not contain '..'"),
                ("root", "/escaped", "error SubPath `{}` must not be an absolute path"),
            ):
                mount = {"name": "v", "mountPath": "/m", "subPathExpr": "$(PART)"}
                own = container("c", *POLITE, env=[{"name": "PART", "value": value}], volumeMounts=[mount])
                await made.create(name, own, volumes=[{"name": "v", "emptyDir": {}}])
                await made.event("Failed", "Error: " + text.format(value))

                async def refused(name: str = name) -> bool:
                    statuses = ((await made.pod(name) or {}).get("status") or {}).get(
                        "containerStatuses"
                    ) or []
                    waiting = [(entry["state"].get("waiting") or {}).get("reason") for entry in statuses]
                    return waiting == ["CreateContainerConfigError"]

                await made.until(refused, "the container waits for a configuration that can be used")
            assert not list(made.root.parent.glob("escaped")) + list(made.root.rglob("escaped"))

    run(scenario())


def test_no_file_of_a_kubelet_waits_for_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    async def scenario() -> None:
        async with bench() as made:
            await config_map(made, "cm", a="A")
            own = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
            await made.create("p", own, volumes=[{"name": "v", "configMap": {"name": "cm"}}])
            await made.ready("p")
            assert synced == []
            written = list((made.root / "pods").rglob("kubernetes.io~configmap/v/a"))
            assert [path.read_text() for path in written] == ["A"]

    run(scenario())


def test_mounts_are_as_the_volumes_allow() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await config_map(made, "cm", a="1")
            volumes = [
                {"name": "cm", "configMap": {"name": "cm"}},
                {"name": "api", "downwardAPI": {"items": []}},
                {"name": "all", "projected": {"sources": [{"configMap": {"name": "cm"}}]}},
                {"name": "own", "emptyDir": {}},
            ]
            mounts = [
                *({"name": name, "mountPath": f"/{name}"} for name in ("cm", "api", "all", "own")),
                {"name": "own", "mountPath": "/in", "mountPropagation": "HostToContainer"},
                {"name": "own", "mountPath": "/out", "mountPropagation": "Bidirectional"},
                {"name": "own", "mountPath": "/deep", "readOnly": True, "recursiveReadOnly": "IfPossible"},
            ]
            await made.create(
                "p",
                hostNetwork=True,
                automountServiceAccountToken=False,
                volumes=volumes,
                containers=[
                    container(
                        "c",
                        "pause",
                        volumeMounts=mounts,
                        env=[{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    )
                ],
            )
            pod = await made.ready("p")
            seen = await view(made)
            assert {mount.destination: mount.options[1:] for mount in seen.mounts} == {
                "/cm": ("rprivate", "ro"),
                "/api": ("rprivate", "ro"),
                "/all": ("rprivate", "ro"),
                "/own": ("rprivate", "rw"),
                "/in": ("rslave", "rw"),
                "/out": ("rshared", "rw"),
                "/deep": ("rprivate", "rro"),
                "/etc/hosts": ("rprivate", "rw"),
                "/dev/termination-log": ("rprivate", "rw"),
            }
            assert seen.environment["IP"] == pod["status"]["hostIP"] == "127.0.0.1"
            assert (seen.hostname, seen.limits) == ("", {"cpuPeriod": 100_000, "cpuShares": 2})
            modes = {
                mount["mountPath"]: mount.get("recursiveReadOnly")
                for mount in pod["status"]["containerStatuses"][0]["volumeMounts"]
            }
            assert (modes["/deep"], modes["/cm"]) == ("Enabled", None)

    run(scenario())


def test_what_cannot_be_read_any_more_stays_as_it_was(tmp_path: Path) -> None:
    answers: list[Any] = [
        {"data": {"a": "1"}},
        ClientError(403, "Forbidden", "no relationship"),
        {"data": {"a": "2"}},
    ]

    async def fetch(resource: str, namespace: str, name: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def scenario() -> list[str]:
        parts: Any = {"fetch": fetch, "fetch_token": None, "host_ip": "", "allocatable": {}, "clock": Clock()}
        volumes = PodVolumes(KubeletPaths(tmp_path), refresh=0.0, **parts)
        container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        spec = {"volumes": [{"name": "v", "configMap": {"name": "cm"}}], "containers": [container]}
        pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}
        seen = []
        for _ in range(3):
            await volumes.set_up(pod, ())
            [file] = volumes.folder("u").rglob("a")
            seen.append(file.read_text())
        return seen

    assert asyncio.run(scenario()) == ["1", "1", "2"]
