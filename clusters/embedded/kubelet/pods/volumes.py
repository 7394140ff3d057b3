"""Volumes of a Pod as folders of the node, and the mounts of its containers."""

from __future__ import annotations

import base64
import math
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.containers.model import Mount, Propagation
from clusters.embedded.kubelet.config import KubeletPaths
from clusters.embedded.kubelet.pods import hosts_file, objects
from clusters.embedded.kubelet.pods.downward import DownwardError, field_value, resource_value
from clusters.embedded.kubelet.pods.environment import Fetch
from clusters.embedded.kubelet.pods.expansion import expand
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.threads import in_thread
from dra_api.validation.pod_paths import backsteps
from node_api.files import write_atomic

_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_HOST_KINDS: Final = {
    "Directory": "directory",
    "DirectoryOrCreate": "directory",
    "File": "file",
    "FileOrCreate": "file",
    "Socket": "socket file",
    "CharDevice": "character device",
    "BlockDevice": "block device",
}
_KIND_OF_MODE: Final = {
    stat.S_IFDIR: "Directory",
    stat.S_IFREG: "File",
    stat.S_IFSOCK: "Socket",
    stat.S_IFCHR: "CharDevice",
    stat.S_IFBLK: "BlockDevice",
}
_UNKNOWN_KIND: Final = "only recognise file, directory, socket, block device and character device"
_READ_ONLY: Final = frozenset({"configMap", "secret", "downwardAPI", "projected", "image"})
"""Volumes that no container may write to."""
_PROPAGATIONS: Final = {
    "None": Propagation.PRIVATE,
    "HostToContainer": Propagation.HOST_TO_CONTAINER,
    "Bidirectional": Propagation.BIDIRECTIONAL,
}
FetchToken = Callable[[Object, Object], Awaitable[str]]
"""Gives a service account token for a Pod and a serviceAccountToken projection."""


class VolumeError(Exception):
    """A volume that cannot be set up; the text is that of the kubelet's event."""


@dataclass(frozen=True)
class File:
    """Content of one file of a volume, and its permissions."""

    data: bytes
    mode: int = _MODE


class PodVolumes:
    """Sets up the volumes of Pods below the node's folder."""

    def __init__(
        self,
        paths: KubeletPaths,
        *,
        fetch: Fetch,
        fetch_token: FetchToken,
        host_ip: str,
        allocatable: Mapping[str, str],
        clock: Clock,
        refresh: float,
    ) -> None:
        """`refresh` is the sync frequency in seconds."""
        self._paths, self._clock, self._refresh = paths, clock, refresh
        self._written: dict[str, float] = {}
        # Tokens by Pod UID, volume and path, with the time at which they need a successor.
        self._tokens: dict[tuple[str, str, str], tuple[str, float]] = {}
        self._known: dict[tuple[str, str, str], Object] = {}
        self._fetch, self._fetch_token = fetch, fetch_token
        self._host_ip, self._allocatable = host_ip, allocatable

    def folder(self, uid: str) -> Path:
        """All files of a Pod."""
        return self._paths.pods / uid

    async def set_up(self, pod: Object, ips: tuple[str, ...]) -> None:
        """Make the volumes that containers mount and write what they hold. Raises VolumeError for the first that fails.

        What they hold is looked at again after the sync frequency.
        """
        uid, now = objects.uid(pod), self._clock.now()
        if now - self._written.get(uid, -math.inf) < self._refresh:
            return
        used = {
            mount["name"]
            for _, _, container in objects.all_containers(pod)
            for mount in container.get("volumeMounts") or []
        }
        for volume in pod["spec"].get("volumes") or []:
            if volume["name"] not in used:
                continue
            try:
                await self._set_up(pod, volume, ips)
            except (ClientError, DownwardError, OSError, _MissingError) as error:
                text = error.message if isinstance(error, ClientError) else str(error)
                raise VolumeError(
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {text}'
                ) from error
        self._written[uid] = now

    def _forget(self, uid: str) -> None:
        self._written.pop(uid, None)
        for key in [key for key in self._tokens if key[0] == uid]:
            del self._tokens[key]
        for known in [known for known in self._known if known[0] == uid]:
            del self._known[known]

    async def _set_up(self, pod: Object, volume: Object, ips: tuple[str, ...]) -> None:
        if "hostPath" in volume:
            self._check_host_path(volume["hostPath"])
            return
        folder = self._path(pod, volume)
        folder.mkdir(parents=True, exist_ok=True)
        default = _default_mode(volume)
        files: dict[str, File] = {}
        if "configMap" in volume:
            files = await self._config_map(pod, volume["configMap"], volume["configMap"].get("name"), default)
        elif "secret" in volume:
            files = await self._secret(pod, volume["secret"], volume["secret"].get("secretName"), default)
        elif "downwardAPI" in volume:
            files = self._downward(pod, volume["downwardAPI"], ips, default)
        elif "projected" in volume:
            for source in volume["projected"].get("sources") or []:
                files |= await self._projected(pod, volume["name"], source, ips, default)
        else:
            return
        _write(folder, files)

    def _check_host_path(self, source: Object) -> None:
        path, kind = self._host(source["path"]), source.get("type") or ""
        if kind.endswith("OrCreate") and not path.exists():
            # Nothing of a real host is there, folders above included.
            (path if kind == "DirectoryOrCreate" else path.parent).mkdir(parents=True, exist_ok=True)
            if kind == "FileOrCreate":
                path.touch()
        if kind in _HOST_KINDS:
            _check_kind(path, source["path"], kind.removesuffix("OrCreate"))

    def _host(self, path: str) -> Path:
        return self._paths.host / os.path.normpath(f"/{path}").lstrip("/")

    def _path(self, pod: Object, volume: Object) -> Path:
        kind = next((key for key in volume if key not in ("name",)), "emptyDir")
        plugin = {"emptyDir": "empty-dir", "configMap": "configmap", "downwardAPI": "downward-api"}
        folder = self.folder(objects.uid(pod)) / "volumes" / f"kubernetes.io~{plugin.get(kind, kind)}"
        return folder / str(volume["name"])

    async def _config_map(
        self, pod: Object, source: Object, name: str | None, default: int
    ) -> dict[str, File]:
        found = await self._object(pod, "configmaps", name or "", optional=bool(source.get("optional")))
        content = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        content |= {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
        return _chosen(content, source, default, "configmap references non-existent config key: {}")

    async def _secret(self, pod: Object, source: Object, name: str | None, default: int) -> dict[str, File]:
        found = await self._object(pod, "secrets", name or "", optional=bool(source.get("optional")))
        content = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        return _chosen(content, source, default, "references non-existent secret key: {}")

    async def _object(self, pod: Object, resource: str, name: str, *, optional: bool) -> Object:
        key = (objects.uid(pod), resource, name)
        try:
            self._known[key] = await self._fetch(resource, objects.namespace(pod), name)
            return self._known[key]
        except ClientError as error:
            if error.code != 404 and key in self._known:
                # As with a watch: what cannot be read any more, as after the Pod's object is gone, stays as it was.
                return self._known[key]
            if error.code == 404 and optional:
                return {}
            if error.code == 404:
                raise _MissingError(f'{resource.removesuffix("s")} "{name}" not found') from None
            raise

    def _downward(self, pod: Object, source: Object, ips: tuple[str, ...], default: int) -> dict[str, File]:
        files = {}
        for item in source.get("items") or []:
            if field := item.get("fieldRef"):
                text = field_value(pod, field["fieldPath"], self._host_ip, ips)
            else:
                text = resource_value(pod, {}, item["resourceFieldRef"], self._allocatable)
            files[item["path"]] = File(text.encode(), item.get("mode") or default)
        return files

    async def _projected(
        self, pod: Object, volume: str, source: Object, ips: tuple[str, ...], default: int
    ) -> dict[str, File]:
        if part := source.get("configMap"):
            return await self._config_map(pod, part, part.get("name"), default)
        if part := source.get("secret"):
            return await self._secret(pod, part, part.get("name"), default)
        if part := source.get("downwardAPI"):
            return self._downward(pod, part, ips, default)
        if part := source.get("serviceAccountToken"):
            token = await self._token(pod, volume, part)
            return {part["path"]: File(token.encode(), default)}
        raise _MissingError(f"unsupported projection: {', '.join(source)}")

    async def _token(self, pod: Object, volume: str, projection: Object) -> str:
        """The token of a projection, which is used for four fifths of its life."""
        key = (objects.uid(pod), volume, projection["path"])
        known = self._tokens.get(key)
        now = self._clock.now()
        if known is not None and now < known[1]:
            return known[0]
        token = await self._fetch_token(pod, projection)
        seconds = projection.get("expirationSeconds") or _TOKEN_SECONDS
        self._tokens[key] = (token, now + seconds * 0.8)
        return token

    def mounts(
        self,
        pod: Object,
        container: Object,
        variables: Mapping[str, str],
        attempt: int,
        ips: tuple[str, ...],
    ) -> tuple[Mount, ...]:
        """The mounts of a container in its so many-th start, subPath and subPathExpr applied.

        `ips` are the addresses of the Pod. Raises SubPathError, OSError.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        mounts = []
        for mount in container.get("volumeMounts") or []:
            volume = volumes[mount["name"]]
            host = "hostPath" in volume
            path = self._host(volume["hostPath"]["path"]) if host else self._path(pod, volume)
            sub_path = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
            if sub_path:
                path = path / _checked(sub_path)
            if not path.exists():
                path.mkdir(parents=True)
            mounts.append(
                Mount(
                    mount["mountPath"],
                    str(path),
                    bool(mount.get("readOnly")) or not _READ_ONLY.isdisjoint(volume),
                    is_recursive_read_only(mount),
                    _PROPAGATIONS[mount.get("mountPropagation") or "None"],
                )
            )
        if all(mount.container_path != hosts_file.PATH for mount in mounts):
            mounts.append(self._hosts(pod, ips))
        mounts += self._own_files(pod, container, attempt)
        return tuple(mounts)

    def _hosts(self, pod: Object, ips: tuple[str, ...]) -> Mount:
        file = self.folder(objects.uid(pod)) / "etc-hosts"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(hosts_file.content(pod, ips), encoding="utf-8", errors="surrogateescape")
        return Mount(hosts_file.PATH, str(file))

    def _own_files(self, pod: Object, container: Object, attempt: int) -> list[Mount]:
        """The file of the termination message."""
        message = container.get("terminationMessagePath")
        if not message:
            return []
        folder = self.folder(objects.uid(pod)) / "containers" / container["name"]
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"termination-log.{attempt}"
        file.write_bytes(b"")
        return [Mount(message, str(file))]

    async def tear_down(self, uid: str) -> None:
        """Remove the volumes of a Pod."""
        self._forget(uid)
        await in_thread(shutil.rmtree, self.folder(uid) / "volumes", ignore_errors=True)

    async def remove(self, uid: str) -> None:
        """Remove all files of a Pod."""
        self._forget(uid)
        await in_thread(shutil.rmtree, self.folder(uid), ignore_errors=True)


def is_recursive_read_only(mount: Object) -> bool:
    """Whether what is mounted below a volume mount is read-only too; the runtime can do that."""
    return mount.get("recursiveReadOnly") in ("IfPossible", "Enabled")


class _MissingError(Exception):
    """Something that a volume refers to is not there."""


def _check_kind(path: Path, shown: str, wanted: str) -> None:
    """Raises _MissingError when what is there is of another kind."""
    what = f"{shown} is not a {_HOST_KINDS[wanted]}"
    try:
        found = _KIND_OF_MODE.get(stat.S_IFMT(path.stat().st_mode))
    except FileNotFoundError:
        why = f'path "{shown}" does not exist'
    else:
        if found == wanted:
            return
        if found is not None:
            raise _MissingError(f"hostPath type check failed: {what}, it's a {found}")
        why = _UNKNOWN_KIND
    raise _MissingError(f"hostPath type check failed, {what}, unable to determine its type: {why}")


class SubPathError(Exception):
    """A part of a volume that cannot be mounted; the text is that of the container's status."""


def _checked(sub_path: str) -> str:
    """The path within a volume, when it leads nowhere else. The API server has not seen what variables hold."""
    if sub_path.startswith("/"):
        raise SubPathError(f"error SubPath `{sub_path}` must not be an absolute path")
    if problems := backsteps(sub_path):
        raise SubPathError(f"unable to provision SubPath `{sub_path}`: {problems[0]}")
    return sub_path


def _default_mode(volume: Object) -> int:
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if kind in volume:
            mode = volume[kind].get("defaultMode")
            return _MODE if mode is None else int(mode)
    return _MODE


def _chosen(content: Mapping[str, bytes], source: Object, default: int, missing: str) -> dict[str, File]:
    if not source.get("items"):
        return {key: File(data, default) for key, data in content.items()}
    files = {}
    for item in source["items"]:
        if item["key"] not in content:
            if source.get("optional"):
                continue
            raise _MissingError(missing.format(item["key"]))
        mode = item.get("mode")
        files[item["path"]] = File(content[item["key"]], default if mode is None else mode)
    return files


def _write(folder: Path, files: Mapping[str, File]) -> None:
    """Bring the files of a volume in line; unchanged ones are not touched."""
    for name, file in files.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == file.data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        # After a crash of the machine the Pod is gone, and waiting for a disk would hold up every component.
        write_atomic(path, file.data, mode=file.mode, durable=False)
    wanted = {folder / name for name in files}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
