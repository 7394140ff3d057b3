"""Downloads of releases: what is accepted, what is refused, and that nothing is left of what is refused."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from release_server import ARCH, ETCD, ETCD_MEMBER, KUBELET, SUMS, TESTS, FakeGo, Releases, archive, digest

from clusters.binaries import BinariesError, fetch, find
from clusters.binaries.download import _redirected

DATA = b"a kubelet" * 100_000


def _files(cache: Path) -> list[str]:
    return sorted(
        str(path.relative_to(cache))
        for path in cache.rglob("*")
        if path.is_file() and ".locks" not in path.parts
    )


def _refused(name: str = "kubelet") -> str:
    with pytest.raises(BinariesError) as caught:
        find("1.37", [name])
    return str(caught.value)


def test_good_download_is_in_the_cache(releases: Releases, cache: Path) -> None:
    releases.add(KUBELET, DATA)
    found = find("1.37", ["kubelet"])
    assert (found.version, found.path("kubelet")) == ("v1.37.2", cache / "v1.37.2" / "kubelet")
    assert found.path("kubelet").read_bytes() == DATA
    assert found.path("kubelet").stat().st_mode & 0o777 == 0o755
    assert _files(cache) == ["v1.37.2/kubelet"]


def test_cached_binary_is_not_asked_for_again(releases: Releases) -> None:
    releases.add(KUBELET, DATA)
    find("1.37", ["kubelet"])
    releases.asked.clear()
    find("v1.37.2", ["kubelet"])
    assert releases.asked == []


def test_other_patch_version_is_downloaded(releases: Releases, cache: Path) -> None:
    releases.add(KUBELET.replace("v1.37.2", "v1.37.0"), DATA)
    assert fetch("1.37.0", ["kubelet"]).path("kubelet") == cache / "v1.37.0" / "kubelet"


@pytest.mark.parametrize(
    "text",
    [
        f"{digest(DATA)}\n",
        f"{digest(DATA).upper()}",
        f"{digest(DATA)}  kubelet\n",
        f"{'0' * 64}  other\n{digest(DATA)} *kubelet\n",
    ],
)
def test_forms_of_checksum_files(releases: Releases, text: str) -> None:
    releases.add(KUBELET, DATA, text)
    assert find("1.37", ["kubelet"]).path("kubelet").read_bytes() == DATA


def test_wrong_checksum_is_refused(releases: Releases, cache: Path, go: FakeGo) -> None:
    releases.add(KUBELET, DATA, "1" * 64)
    text = _refused()
    assert f"{KUBELET} has the SHA-256 {digest(DATA)}, and " in text
    assert f"{KUBELET}.sha256 says {'1' * 64}" in text
    assert "DRAKIT_RELEASE_URL names a mirror" in text
    assert _files(cache) == [] and not (cache / "v1.37.2").exists()
    # What was changed on its way is told, not worked around.
    assert go.calls == []


def test_file_without_checksum_is_refused(releases: Releases, cache: Path) -> None:
    releases.files[KUBELET] = DATA
    assert f"{KUBELET}.sha256: HTTP 404: there is a file without a checksum" in _refused()
    assert _files(cache) == []
    assert f"GET {KUBELET}" not in releases.asked


@pytest.mark.parametrize(
    "text",
    ["", "<html>not found</html>", "0" * 63, "g" * 64, f"{'0' * 64}  other", f"{'0' * 64}\n{'1' * 64}"],
)
def test_malformed_checksum_is_refused(releases: Releases, cache: Path, text: str) -> None:
    releases.add(KUBELET, DATA, text)
    assert f"{KUBELET}.sha256 holds no SHA-256 of kubelet" in _refused()
    assert _files(cache) == []


def test_what_is_not_served_comes_from_the_next_source(releases: Releases, go: FakeGo) -> None:
    lines: list[str] = []
    found = find("1.37", ["kubelet"], progress=lines.append)
    assert found.path("kubelet").read_text() == "built k8s.io/kubernetes/cmd/kubelet"
    assert lines == [f"{releases.url}{KUBELET}.sha256: HTTP 404; trying go build"]


def test_forbidden_comes_from_the_next_source(releases: Releases, go: FakeGo) -> None:
    releases.add(KUBELET, DATA)
    releases.statuses[KUBELET] = 403
    assert find("1.37", ["kubelet"]).path("kubelet").read_text().startswith("built ")


def test_fetch_alone_does_not_build(releases: Releases, go: FakeGo) -> None:
    with pytest.raises(
        BinariesError, match=r"kubelet of Kubernetes v1\.37\.2 cannot be had:\n  download: .*HTTP 404"
    ):
        fetch("1.37", ["kubelet"])
    assert go.calls == []


def test_unreachable_server_is_told_once(unreachable: None, go: FakeGo) -> None:
    lines: list[str] = []
    find("1.37", ["kubelet", "kubectl", "etcd"], progress=lines.append)
    assert lines == ["127.0.0.1:1 cannot be reached: Connection refused; trying go build"]
    assert go.packages == [
        "k8s.io/kubernetes/cmd/kubelet",
        "k8s.io/kubernetes/cmd/kubectl",
        "go.etcd.io/etcd/server/v3",
    ]


def test_unreachable_server_is_tried_once(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[None] = []

    def hang_up(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                listener.accept()[0].close()
                tries.append(None)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        monkeypatch.setenv("DRAKIT_RELEASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        find("1.37", ["kubelet", "kubectl"])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert len(tries) == 1


def test_cut_connection_is_tried_again(releases: Releases) -> None:
    releases.add(KUBELET, DATA)
    releases.cuts[KUBELET] = 2
    lines: list[str] = []
    assert find("1.37", ["kubelet"], progress=lines.append).path("kubelet").read_bytes() == DATA
    assert len(lines) == 2 and all(line.endswith("; once more") for line in lines)


def test_connection_that_is_always_cut_is_an_error(releases: Releases, cache: Path, go: FakeGo) -> None:
    releases.add(KUBELET, DATA)
    releases.cuts[KUBELET] = 9
    text = _refused()
    assert text.startswith(f"{releases.url}{KUBELET}: ") and "3 times; try again" in text
    assert _files(cache) == [] and go.calls == []


def test_cut_without_a_length_is_found_by_the_checksum(releases: Releases, cache: Path) -> None:
    releases.add(KUBELET, DATA)
    releases.lengthless.add(KUBELET)
    assert find("1.37", ["kubelet"]).path("kubelet").read_bytes() == DATA
    (cache / "v1.37.2" / "kubelet").unlink()
    releases.cuts[KUBELET] = 1
    assert "changed or damaged on its way" in _refused()


def test_long_download_tells_each_tenth(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing is said about what is done at once; here, everything takes long.
    monkeypatch.setattr("clusters.binaries.download._QUIET_SECONDS", -1.0)
    monkeypatch.setattr("clusters.binaries.download._CHUNK", 300_000)
    monkeypatch.setenv("DRAKIT_RELEASE_URL", f"{releases.url}/mirror")
    releases.add(f"/mirror{KUBELET}", bytes(1_000_000))
    lines: list[str] = []
    find("1.37", ["kubelet"], progress=lines.append)
    host = releases.url.removeprefix("http://")
    assert lines[:-1] == [
        f"downloading kubelet v1.37.2 from {host}: {step} % of 1 MB" for step in (30, 60, 90, 100)
    ]
    assert lines[-1].startswith("downloaded kubelet v1.37.2, 1 MB in ")


def test_redirects_are_followed(releases: Releases) -> None:
    releases.add("/elsewhere", DATA)
    releases.redirects[KUBELET] = "/again"
    releases.redirects["/again"] = f"{releases.url}/elsewhere"
    releases.redirects[f"{KUBELET}.sha256"] = "/elsewhere.sha256"
    assert find("1.37", ["kubelet"]).path("kubelet").read_bytes() == DATA


def test_endless_redirects_are_an_error(releases: Releases, cache: Path) -> None:
    releases.redirects[f"{KUBELET}.sha256"] = f"{KUBELET}.sha256"
    assert "more than 10 redirects" in _refused()
    assert _files(cache) == []


def test_protection_is_not_lost_by_a_redirect() -> None:
    assert _redirected("https://a.example/x", "/y") == "https://a.example/y"
    assert _redirected("http://a.example/x", "https://b.example/y") == "https://b.example/y"
    for target in ("http://a.example/y", "file:///etc/passwd"):
        with pytest.raises(BinariesError, match="not protected as https is"):
            _redirected("https://a.example/x", target)


def test_proxy_of_the_environment_is_used(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAKIT_RELEASE_URL", "http://releases.example/base/")
    monkeypatch.setenv("http_proxy", releases.url)
    releases.add(f"http://releases.example/base{KUBELET}", DATA)
    assert find("1.37", ["kubelet"]).path("kubelet").read_bytes() == DATA


def test_proxy_is_not_used_where_it_must_not(releases: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    releases.add(KUBELET, DATA)
    assert find("1.37", ["kubelet"]).path("kubelet").read_bytes() == DATA


@pytest.mark.parametrize("url", ["dl.k8s.io/release", "ftp://dl.k8s.io", "http://", "https:///x"])
def test_base_address_that_is_none(url: str) -> None:
    with pytest.raises(BinariesError, match="no base address; write it as https:"):
        fetch("1.37", ["kubelet"], release_url=url)


def test_etcd_comes_out_of_its_archive(releases: Releases, cache: Path) -> None:
    packed = archive(**{ETCD_MEMBER: b"an etcd", "etcd-v3.7.3-linux/README.md": b"text"})
    releases.files |= {
        ETCD: packed,
        SUMS: f"{'0' * 64}  x.zip\n{digest(packed)}  {Path(ETCD).name}\n".encode(),
    }
    assert find("1.36", ["etcd"]).path("etcd").read_bytes() == b"an etcd"
    assert _files(cache) == ["etcd-v3.7.3/etcd"]
    # Kubernetes of another version has the same one.
    releases.asked.clear()
    assert find("1.37", ["etcd"]).path("etcd") == cache / "etcd-v3.7.3" / "etcd"
    assert releases.asked == []


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (archive(other=b"x"), f"holds no file {ETCD_MEMBER}"),
        (b"no archive at all", "is no archive"),
        (archive(**{ETCD_MEMBER: os.urandom(5000)})[:2000], "is no archive"),
    ],
    ids=["without etcd", "no archive", "cut"],
)
def test_archive_that_is_of_no_use(releases: Releases, cache: Path, packed: bytes, problem: str) -> None:
    releases.files |= {ETCD: packed, SUMS: f"{digest(packed)}  {Path(ETCD).name}\n".encode()}
    text = _refused("etcd")
    assert problem in text and "DRAKIT_ETCD_URL names a mirror" in text
    assert _files(cache) == []


def test_end_to_end_tests_come_out_of_the_archive_of_tests(releases: Releases) -> None:
    releases.add(TESTS, archive(**{"kubernetes/test/bin/e2e.test": b"tests"}))
    assert find("1.37", ["e2e.test"]).path("e2e.test").read_bytes() == b"tests"


def test_full_disk_is_told_and_nothing_left(releases: Releases, tmp_path: Path) -> None:
    releases.add(KUBELET, os.urandom(3 << 20))
    small = tmp_path / "small"
    small.mkdir()
    program = textwrap.dedent(
        """
        import os, pathlib
        from clusters.binaries import BinariesError, fetch
        try:
            fetch("1.37", ["kubelet"])
        except BinariesError as error:
            print(error)
        print([path.name for path in pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob("*kubelet*")])
        """
    )
    mount = f'mount -t tmpfs -o size=1m none {small} || exit 77; exec "$@"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", program],
        env={**os.environ, "XDG_CACHE_HOME": str(small), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system")
    problem, left = done.stdout.splitlines()
    assert problem.startswith(f"no space left for {small}/") and "drakit binaries prune" in problem
    assert left == "[]"


def test_architecture_is_named_as_releases_do() -> None:
    assert ARCH in ("amd64", "arm64", "ppc64le", "s390x")
