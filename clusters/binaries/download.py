"""Downloads release binaries, which must have the SHA-256 that is published beside them.

RELEASE_URL/v1.37.2/bin/linux/amd64/kubelet, and .sha256 of it
RELEASE_URL/v1.37.2/kubernetes-test-linux-amd64.tar.gz, and .sha256 of it, for e2e.test
ETCD_URL/v3.7.3/etcd-v3.7.3-linux-amd64.tar.gz, and SHA256SUMS beside it
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import shutil
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from clusters.binaries.cache import Progress, full_disk
from clusters.binaries.errors import BinariesError, NotHadError
from clusters.binaries.releases import E2E, ETCD, Release

RELEASE_ENVIRONMENT: Final = "DRAKIT_RELEASE_URL"
RELEASE_URL: Final = "https://dl.k8s.io/release"
ETCD_ENVIRONMENT: Final = "DRAKIT_ETCD_URL"
ETCD_URL: Final = "https://github.com/etcd-io/etcd/releases/download"

_CONNECT_SECONDS: Final = 4.0
_READ_SECONDS: Final = 30.0
_ATTEMPTS: Final = 3
_REDIRECTS: Final = 10
_CHUNK: Final = 1 << 20
_SUMS_LIMIT: Final = 1 << 20
_QUIET_SECONDS: Final = 2.0
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


class _CutError(Exception):
    """A connection that ended in the middle of an answer."""


@dataclass(frozen=True)
class _Item:
    """One file of a release: its address, where its checksum is, and which member of the archive is wanted."""

    url: str
    sums: str
    member: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def architecture() -> str:
    """The architecture of this machine as releases name it. Raises NotHadError where there are no releases for it."""
    machine = _MACHINES.get(platform.machine())
    if machine is None or sys.platform != "linux":
        raise NotHadError(f"there are no releases for {sys.platform} on {platform.machine()}")
    return machine


@dataclass
class Downloader:
    """Downloads from two base addresses; remembers which hosts cannot be reached.

    An empty address means that of the environment (DRAKIT_RELEASE_URL, DRAKIT_ETCD_URL) or the official one.
    """

    release_url: str = ""
    etcd_url: str = ""
    _unreachable: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.release_url = _base(self.release_url, RELEASE_ENVIRONMENT, RELEASE_URL)
        self.etcd_url = _base(self.etcd_url, ETCD_ENVIRONMENT, ETCD_URL)

    def _item(self, release: Release, name: str) -> _Item:
        machine = architecture()
        if name == ETCD:
            base, stem = f"{self.etcd_url}/{release.etcd}", f"etcd-{release.etcd}-linux-{machine}"
            return _Item(f"{base}/{stem}.tar.gz", f"{base}/SHA256SUMS", f"{stem}/etcd")
        base = f"{self.release_url}/{release.kubernetes}"
        if name == E2E:
            url = f"{base}/kubernetes-test-linux-{machine}.tar.gz"
            return _Item(url, f"{url}.sha256", "kubernetes/test/bin/e2e.test")
        url = f"{base}/bin/linux/{machine}/{name}"
        return _Item(url, f"{url}.sha256")

    def fetch(self, release: Release, name: str, work: Path, progress: Progress) -> Path:
        """Download one binary below the folder `work` and return its path.

        Raises NotHadError when the server cannot be reached or does not have it, and BinariesError when what it
        sends is not what it says.
        """
        item = self._item(release, name)
        digest = self._checksum(item)
        file = work / item.name
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                found = self._save(item, file, f"{name} {release.version(name)}", progress)
                break
            except _CutError as error:
                if attempt == _ATTEMPTS:
                    raise BinariesError(
                        f"{item.url}: {error}, {_ATTEMPTS} times; try again, {_remedies(name)}"
                    ) from None
                progress(f"{item.url}: {error}; once more")
        if found != digest:
            raise BinariesError(
                f"{item.url} has the SHA-256 {found}, and {item.sums} says {digest}: "
                f"it was changed or damaged on its way and is not used; {_remedies(name)}"
            )
        return _extract(file, item, work / "extracted") if item.member else file

    def _checksum(self, item: _Item) -> str:
        response = self._open("GET", item.sums)
        try:
            if response.status == 404 and self._is_there(item.url):
                raise BinariesError(
                    f"{item.sums}: HTTP 404: there is a file without a checksum, which is not used; "
                    f"{_remedies(item.name)}"
                )
            _accept(response, item.sums)
            try:
                text = response.read(_SUMS_LIMIT, decode_content=True).decode("utf-8", "replace")
            except HTTPError as error:
                raise NotHadError(f"{item.sums}: {_why(error)}") from None
        finally:
            response.close()
        return _parse_sums(text, item)

    def _is_there(self, url: str) -> bool:
        response = self._open("HEAD", url)
        response.close()
        return response.status == 200

    def _save(self, item: _Item, file: Path, what: str, progress: Progress) -> str:
        """Download into a file; the SHA-256 of what came."""
        response = self._open("GET", item.url)
        try:
            _accept(response, item.url)
            total = int(response.headers.get("Content-Length") or 0)
            meter = _Meter(what, urlsplit(item.url).netloc, total, progress)
            digest = hashlib.sha256()
            with file.open("wb") as output:
                for chunk in response.stream(_CHUNK, decode_content=False):
                    digest.update(chunk)
                    output.write(chunk)
                    meter.add(len(chunk))
            meter.end()
            return digest.hexdigest()
        except HTTPError as error:
            raise _CutError(_why(error)) from None
        except OSError as error:
            raise _disk_error(file, error) from None
        finally:
            response.close()

    def _open(self, method: str, url: str) -> urllib3.BaseHTTPResponse:
        """Send a request and follow redirects; the answer may have any status."""
        for _ in range(_REDIRECTS):
            host = urlsplit(url).netloc
            if host in self._unreachable:
                raise NotHadError(self._unreachable[host])
            try:
                response = _pool(url).request(
                    method,
                    url,
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                )
            except (HTTPError, OSError) as error:
                self._unreachable[host] = f"{host} cannot be reached: {_why(error)}"
                raise NotHadError(self._unreachable[host]) from None
            target = response.get_redirect_location()
            if not target:
                return response
            response.close()
            url = _redirected(url, target)
        raise BinariesError(f"{url}: more than {_REDIRECTS} redirects; is the base address right?")


class _Meter:
    """Tells the progress of a download in steps of ten per cent, once it has taken a moment."""

    def __init__(self, what: str, host: str, total: int, progress: Progress) -> None:
        self._what, self._host, self._total, self._progress = what, host, total, progress
        self._start, self._done, self._told = time.monotonic(), 0, 0

    def add(self, count: int) -> None:
        self._done += count
        step = self._done * 10 // self._total if self._total else self._done // (10 << 20)
        if step > self._told and time.monotonic() - self._start > _QUIET_SECONDS:
            self._told = step
            share = f"{step * 10} % of {_mega(self._total)}" if self._total else _mega(self._done)
            self._progress(f"downloading {self._what} from {self._host}: {share}")

    def end(self) -> None:
        seconds = time.monotonic() - self._start
        if seconds > _QUIET_SECONDS:
            self._progress(f"downloaded {self._what}, {_mega(self._done)} in {seconds:.0f} s")


def _mega(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


def _base(url: str, variable: str, official: str) -> str:
    chosen = url or os.environ.get(variable, "") or official
    parts = urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BinariesError(f'"{chosen}" ({variable}) is no base address; write it as {official}')
    return chosen.rstrip("/")


def _pool(url: str) -> urllib3.PoolManager:
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        return urllib3.ProxyManager(proxy if "://" in proxy else f"http://{proxy}")
    return urllib3.PoolManager()


def _redirected(url: str, target: str) -> str:
    new = urljoin(url, target)
    scheme = urlsplit(new).scheme
    if scheme not in ("http", "https") or (urlsplit(url).scheme == "https" and scheme == "http"):
        raise BinariesError(f"{url} redirects to {new}, which is not protected as {urlsplit(url).scheme} is")
    return new


def _accept(response: urllib3.BaseHTTPResponse, url: str) -> None:
    if response.status != 200:
        raise NotHadError(f"{url}: HTTP {response.status}")


def _parse_sums(text: str, item: _Item) -> str:
    """The SHA-256 of a file, from a text with the sum alone, or with lines of sums and names."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line[1:] and line[-1].lstrip("*") == item.name] or [
        line for line in lines if len(line) == 1 and len(lines) == 1
    ]
    if len(own) == 1 and re.fullmatch(r"[0-9a-fA-F]{64}", own[0][0]):
        return own[0][0].lower()
    raise BinariesError(
        f"{item.sums} holds no SHA-256 of {item.name}, so that the file is not used; {_remedies(item.name)}"
    )


def _extract(archive: Path, item: _Item, target: Path) -> Path:
    """The wanted member of an archive, and no more of it."""
    try:
        with tarfile.open(archive, "r:gz") as packed:
            member = packed.extractfile(item.member)
            if member is None:
                raise KeyError(item.member)
            with member, target.open("wb") as output:
                shutil.copyfileobj(member, output, _CHUNK)
    except KeyError:
        raise BinariesError(f"{item.url} holds no file {item.member}; {_remedies(item.name)}") from None
    except (tarfile.TarError, EOFError) as error:
        raise BinariesError(f"{item.url} is no archive: {error}; {_remedies(item.name)}") from None
    except OSError as error:
        raise _disk_error(target, error) from None
    archive.unlink()
    return target


def _disk_error(path: Path, error: OSError) -> BinariesError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(path)
    return BinariesError(f"{path}: {error.strerror or error}")


def _remedies(name: str) -> str:
    variable = ETCD_ENVIRONMENT if name.startswith("etcd") else RELEASE_ENVIRONMENT
    return f'{variable} names a mirror, and "drakit binaries build" builds it with Go'


def _why(error: Exception) -> str:
    """The reason in an error of urllib3, without its objects."""
    for cause in (error, error.__cause__, error.__context__):
        if isinstance(cause, OSError) and cause.strerror:
            return str(cause.strerror)
    return re.sub(r"^.*?object at 0x[0-9a-f]+>: |<[^>]*>|HTTPSConnectionPool\([^)]*\): ", "", str(error))


Fetch = Callable[[Release, str, Path, Progress], Path]
"""A source of binaries: makes one below a working folder and returns its path."""
