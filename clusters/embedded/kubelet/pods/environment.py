"""The environment variables of a container."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from clusters.client import ClientError
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.downward import field_value, resource_value
from clusters.embedded.kubelet.pods.expansion import expand
from clusters.embedded.kubelet.pods.objects import Object

_MASTER_SERVICES: Final = ("kubernetes",)
Fetch = Callable[[str, str, str], Awaitable[Object]]
"""Gives an object of a resource ("configmaps"), namespace and name. Raises ClientError."""


class VariableError(Exception):
    """A container whose environment cannot be made; the text is the kubelet's."""


def service_variables(services: Iterable[Object], namespace: str, *, links: bool) -> dict[str, str]:
    """Variables that tell where services are: the API server's always, those of the namespace with links."""
    chosen: dict[str, Object] = {}
    for service in services:
        address = service["spec"].get("clusterIP")
        if not address or address == "None":
            continue
        name, where = service["metadata"]["name"], service["metadata"].get("namespace")
        if where == "default" and name in _MASTER_SERVICES:
            chosen.setdefault(name, service)
        elif where == namespace and links:
            chosen[name] = service
    result: dict[str, str] = {}
    for name, service in chosen.items():
        result.update(_variables(name, service["spec"]))
    return result


def _variables(name: str, spec: Object) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    address, ports = str(spec["clusterIP"]), spec.get("ports") or []
    host = f"[{address}]" if ":" in address else address
    if not ports:
        return {f"{prefix}_SERVICE_HOST": address}
    result = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            suffix = str(port["name"]).upper().replace("-", "_")
            result[f"{prefix}_SERVICE_PORT_{suffix}"] = str(port["port"])
    for index, port in enumerate(ports):
        protocol = str(port.get("protocol") or "TCP")
        url = f"{protocol.lower()}://{host}:{port['port']}"
        start = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        if index == 0:
            result[f"{prefix}_PORT"] = url
        result |= {
            start: url,
            f"{start}_PROTO": protocol.lower(),
            f"{start}_PORT": str(port["port"]),
            f"{start}_ADDR": address,
        }
    return result


class EnvironmentBuilder:
    """Makes the variables of one container."""

    def __init__(
        self,
        pod: Object,
        container: Object,
        *,
        fetch: Fetch,
        services: Iterable[Object],
        host_ip: str,
        ips: tuple[str, ...],
        allocatable: Mapping[str, str],
    ) -> None:
        self._pod, self._container = pod, container
        self._fetch, self._host_ip, self._ips = fetch, host_ip, ips
        self._allocatable = allocatable
        links = pod["spec"].get("enableServiceLinks")
        self._services = service_variables(
            services, objects.namespace(pod), links=True if links is None else bool(links)
        )
        self._cache: dict[tuple[str, str], Object | None] = {}

    async def build(self) -> tuple[tuple[str, str], ...]:
        """The variables in order: those of the container, then those of services.

        Raises:
            ClientError: a config map or secret that cannot be read.
            VariableError: a key that is missing.
            DownwardError: a field that cannot be given.
        """
        result: dict[str, str] = {}
        for source in self._container.get("envFrom") or []:
            await self._add_all(source, result)
        for variable in self._container.get("env") or []:
            value = variable.get("value") or ""
            if value:
                value = expand(value, result, self._services)
            elif variable.get("valueFrom"):
                found = await self._from(variable["valueFrom"])
                if found is None:
                    continue
                value = found
            result[variable["name"]] = value
        for name, value in self._services.items():
            result.setdefault(name, value)
        return tuple(result.items())

    async def _object(self, resource: str, name: str, *, optional: bool) -> Object | None:
        key = (resource, name)
        if key not in self._cache:
            try:
                self._cache[key] = await self._fetch(resource, objects.namespace(self._pod), name)
            except ClientError as error:
                if error.code != 404:
                    raise
                if not optional:
                    # A kubelet looks into its cache, which names the kind instead of the resource.
                    raise VariableError(f'{resource.removesuffix("s")} "{name}" not found') from None
                return None
        return self._cache[key]

    async def _add_all(self, source: Object, result: dict[str, str]) -> None:
        prefix = source.get("prefix") or ""
        for field, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            reference = source.get(field)
            if not reference:
                continue
            found = await self._object(
                resource, reference.get("name", ""), optional=bool(reference.get("optional"))
            )
            for key, value in ((found or {}).get("data") or {}).items():
                result[prefix + key] = value if field == "configMapRef" else decoded(value)

    async def _from(self, source: Object) -> str | None:
        if field := source.get("fieldRef"):
            return field_value(self._pod, field["fieldPath"], self._host_ip, self._ips)
        if resource := source.get("resourceFieldRef"):
            return resource_value(self._pod, self._container, resource, self._allocatable)
        for field_name, resource_name, kind in (
            ("configMapKeyRef", "configmaps", "ConfigMap"),
            ("secretKeyRef", "secrets", "Secret"),
        ):
            reference = source.get(field_name)
            if not reference:
                continue
            optional, name, key = bool(reference.get("optional")), reference.get("name", ""), reference["key"]
            found = await self._object(resource_name, name, optional=optional)
            value = ((found or {}).get("data") or {}).get(key)
            if value is not None:
                return str(value) if kind == "ConfigMap" else decoded(value)
            if optional:
                return None
            where = f"{objects.namespace(self._pod)}/{name}"
            raise VariableError(f"couldn't find key {key} in {kind} {where}")
        return ""


def decoded(value: str) -> str:
    """A value of a secret as text."""
    return base64.b64decode(value).decode("utf-8", "surrogateescape")
