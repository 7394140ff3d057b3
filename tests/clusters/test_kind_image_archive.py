"""Docker archives: what is in them, and that the same content is the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from clusters.kind.image import archive
from clusters.kind.image.archive import Entry, File, Folder, Image, Link

LAYER: tuple[Entry, ...] = (
    Folder("/tmp", 0o1777),
    File("/etc/passwd", b"root\n", 0o644),
    File("/usr/bin/probe", b"program"),
    Link("/usr/bin/sh", "/usr/bin/probe", hard=True),
    Link("/bin", "usr/bin"),
)


def write(tmp_path: Path, *images: Image, name: str = "images.tar") -> dict[str, bytes]:
    archive.write(images, tmp_path / name)
    with tarfile.open(tmp_path / name) as found:
        return {member.name: found.extractfile(member).read() for member in found}  # type: ignore[union-attr]


def test_everything_is_named_by_its_digest(tmp_path: Path) -> None:
    files = write(tmp_path, Image(("a:1",), (LAYER,)))
    [entry] = json.loads(files["manifest.json"])
    assert entry["RepoTags"] == ["a:1"]
    config = files[entry["Config"]]
    assert entry["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    [layer] = entry["Layers"]
    digest = hashlib.sha256(files[layer]).hexdigest()
    assert layer == f"{digest}/layer.tar"
    assert json.loads(config)["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
    assert set(files) == {"manifest.json", entry["Config"], layer}


def test_an_image_starts_what_it_was_told_to(tmp_path: Path) -> None:
    files = write(tmp_path, Image(("a:1",), (LAYER,), ("/x",), ("y", "z"), {"io.drakit.recipe": "1"}))
    [entry] = json.loads(files["manifest.json"])
    config = json.loads(files[entry["Config"]])
    assert (config["os"], config["architecture"]) == ("linux", archive.architecture())
    assert config["config"] == {
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Entrypoint": ["/x"],
        "Cmd": ["y", "z"],
        "Labels": {"io.drakit.recipe": "1"},
    }


def test_a_layer_has_files_links_and_the_folders_above_them(tmp_path: Path) -> None:
    files = write(tmp_path, Image(("a:1",), (LAYER,)))
    [entry] = json.loads(files["manifest.json"])
    with tarfile.open(fileobj=io.BytesIO(files[entry["Layers"][0]])) as layer:
        found = {member.name: (member.type, member.mode, member.linkname) for member in layer}
        assert layer.extractfile("usr/bin/sh").read() == b"program"  # type: ignore[union-attr]
        assert {(member.uid, member.gid, member.uname) for member in layer} == {(0, 0, "")}
    assert found == {
        "tmp": (tarfile.DIRTYPE, 0o1777, ""),
        "etc": (tarfile.DIRTYPE, 0o755, ""),
        "etc/passwd": (tarfile.REGTYPE, 0o644, ""),
        "usr": (tarfile.DIRTYPE, 0o755, ""),
        "usr/bin": (tarfile.DIRTYPE, 0o755, ""),
        "usr/bin/probe": (tarfile.REGTYPE, 0o755, ""),
        "usr/bin/sh": (tarfile.LNKTYPE, 0o777, "usr/bin/probe"),
        "bin": (tarfile.SYMTYPE, 0o777, "usr/bin"),
    }


def test_equal_layers_are_there_once(tmp_path: Path) -> None:
    other: tuple[Entry, ...] = (File("/x", b"x"),)
    files = write(tmp_path, Image(("a:1",), (LAYER,)), Image(("b:1", "b:2"), (LAYER, other)))
    first, second = json.loads(files["manifest.json"])
    assert second["RepoTags"] == ["b:1", "b:2"]
    assert second["Layers"][0] == first["Layers"][0]
    assert len([name for name in files if name.endswith("layer.tar")]) == 2


def test_the_same_content_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        # Where content comes from, and when it was made, does not count.
        source = tmp_path / f"source-of-{name}"
        source.write_bytes(b"data")
        write(tmp_path, Image(("a:1",), ((File("/data", source),),)), name=name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert sorted(path.name for path in tmp_path.glob("*layer*")) == []
