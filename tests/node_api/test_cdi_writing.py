from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_api.cdi import (
    SpecError,
    parse_spec,
    remove_spec,
    resolve,
    validate,
    validate_directories,
    write_spec,
)
from node_api.cdi.parse import spec_json


def spec(**changes: Any) -> dict[str, Any]:
    made = {"kind": "acme.com/gpu", "devices": [{"name": "d0", "containerEdits": {"env": ["A=1"]}}]}
    return {**made, **changes}


def warnings(content: Any) -> list[tuple[str, str]]:
    return [(finding.where, finding.text) for finding in validate(content) if finding.severity == "warning"]


def test_a_written_spec_is_readable_durable_and_resolvable(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        path = write_spec(tmp_path / "cdi", "acme.com-gpu_1b9d.json", spec())
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["acme.com-gpu_1b9d.json"]
    assert json.loads(path.read_text())["cdiVersion"] == "0.5.0"
    assert resolve(["acme.com/gpu=d0"], [path.parent]).edits.env == ["A=1"]


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        ({"env": ["A=1"]}, "0.5.0"),  # needs only 0.3.0
        ({"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]}, "0.5.0"),  # 0.4.0
        ({"additionalGids": [5]}, "0.7.0"),
        ({"netDevices": [{"hostInterfaceName": "e", "name": "n"}]}, "1.1.0"),
    ],
)
def test_the_version_is_the_least_that_fits(tmp_path: Path, edits: Any, version: str) -> None:
    content = spec(devices=[{"name": "d0", "containerEdits": edits}], cdiVersion="0.1.0")
    path = write_spec(tmp_path, "a.json", content)
    assert json.loads(path.read_text())["cdiVersion"] == version


def test_a_bad_spec_is_not_written_and_the_old_one_stays(tmp_path: Path) -> None:
    write_spec(tmp_path, "a.json", spec())
    with pytest.raises(SpecError, match="empty device edits"):
        write_spec(tmp_path, "a.json", spec(devices=[{"name": "d0", "containerEdits": {}}]))
    assert resolve(["acme.com/gpu=d0"], [tmp_path]).edits.env == ["A=1"]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["a/b.json", "a.yml", "a", ".a.json"])
def test_names_that_runtimes_do_not_read_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="CDI file name"):
        write_spec(tmp_path, name, spec())


def test_a_failed_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(OSError):
        write_spec(tmp_path, "a.json", spec())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    write_spec(tmp_path, "a.json", spec())
    assert remove_spec(tmp_path, "a.json") is True
    assert remove_spec(tmp_path, "a.json") is False


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_writing_and_reading(value: str) -> None:
    content = {
        "cdiVersion": "0.5.0",
        **spec(devices=[{"name": "d", "containerEdits": {"env": [f"A={value}"]}}]),
    }
    read = parse_spec(spec_json(content).encode())
    assert read.devices[0].edits.env == [f"A={value}"]


@pytest.mark.parametrize(
    ("changes", "where", "part"),
    [
        ({"cdiVersion": "1.0.0"}, "cdiVersion", "higher than the content needs (0.3.0)"),
        (
            {"mounts": [{"hostPath": "/a", "containerPath": "/b"}]},
            "mounts[0].options",
            "neither bind nor rbind",
        ),
        (
            {"mounts": [{"hostPath": "a", "containerPath": "/b", "options": ["bind"]}]},
            "mounts[0].hostPath",
            "not absolute",
        ),
        ({"deviceNodes": [{"path": "dev/x"}]}, "deviceNodes[0].path", "not absolute"),
        (
            {"deviceNodes": [{"path": "/x", "permissions": "none"}]},
            "deviceNodes[0].permissions",
            "empty access",
        ),
        ({"deviceNodes": [{"path": "/x", "type": "u"}]}, "deviceNodes[0].type", "always fails"),
        # 660 decimal is 0o1224; 0660 octal is 432
        ({"deviceNodes": [{"path": "/x", "fileMode": 660}]}, "deviceNodes[0].fileMode", "octal 0660 is 432"),
        ({"deviceNodes": [{"path": "/x", "fileMode": 4096}]}, "deviceNodes[0].fileMode", "above 07777"),
        (
            {"hooks": [{"hookName": "prestart", "path": "/x", "timeout": 0}]},
            "hooks[0].timeout",
            "not positive",
        ),
        ({"hooks": [{"hookName": "prestart", "path": "x"}]}, "hooks[0].path", "not absolute"),
    ],
)
def test_legal_but_harmful_content_is_warned_about(changes: Any, where: str, part: str) -> None:
    version = changes.pop("cdiVersion", "0.5.0")
    prefix = "devices[0].containerEdits." if changes else ""
    content = spec(
        cdiVersion=version, devices=[{"name": "d0", "containerEdits": changes or {"env": ["A=1"]}}]
    )
    ((found, text),) = warnings(content)
    assert found == prefix + where
    assert part in text


def test_annotation_keys_and_unquoted_numbers_and_documents() -> None:
    text = """\
cdiVersion: 0.6.0
kind: acme.com/gpu
annotations: {"a b": x, example.com/ok: y}
devices:
- name: 007
  containerEdits: {env: [A=1]}
---
other: document
"""
    assert [where for where, _ in warnings(text)] == ["", "devices[0].name", "annotations"]
    assert warnings(f"---\n{text.partition('---')[0]}".replace("007", "'007'").replace("a b", "a")) == []


def test_versions_above_the_runtimes_newest_are_errors() -> None:
    content = spec(
        cdiVersion="1.1.0",
        devices=[{"name": "d", "containerEdits": {"netDevices": [{"hostInterfaceName": "e", "name": "n"}]}}],
    )
    assert validate(content) == []
    (finding,) = validate(content, newest="1.0.0")
    assert (finding.severity, finding.where) == ("error", "cdiVersion")


def test_one_letter_names_are_errors() -> None:
    found = validate(spec(cdiVersion="0.5.0", kind="a/b"))
    assert [(finding.severity, finding.where) for finding in found] == [("error", "kind"), ("error", "kind")]


def test_every_broken_rule_is_reported_not_only_the_first() -> None:
    content = spec(
        cdiVersion="9.9.9", kind="acme", devices=[{"name": "a/", "containerEdits": {"env": ["A", "=B"]}}]
    )
    assert [finding.where for finding in validate(content)] == [
        "cdiVersion",
        "kind",
        "devices[0].name",
        "devices[0].containerEdits.env[0]",
        "devices[0].containerEdits.env[1]",
    ]


def test_files_and_their_neighbourhood_are_judged(tmp_path: Path) -> None:
    write_spec(tmp_path, "good.json", spec())
    content = json.dumps({"cdiVersion": "0.5.0", **spec(kind="other.com/x")})
    (tmp_path / "a.yml").write_text(content)
    (tmp_path / ".b.json").write_text(content)
    (tmp_path / "c.json.tmp").write_text(content)
    (tmp_path / "d.json").symlink_to(tmp_path / "good.json")
    (tmp_path / ".b.json").chmod(0o600)
    found = {
        (Path(f.where.partition(":")[0]).name, f.severity): f.text for f in validate_directories([tmp_path])
    }
    assert "not read" in found[("a.yml", "warning")]
    assert "mode 0600" in found[(".b.json", "warning")]
    assert "left-over" in found[("c.json.tmp", "warning")]
    assert "symbolic link" in found[("d.json", "warning")]
    # the link defines the same device a second time
    assert "conflicting device" in found[("good.json", "error")]


def test_device_nodes_are_looked_up_below_a_root(tmp_path: Path) -> None:
    cdi, root = tmp_path / "cdi", tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    (root / "dev" / "link").symlink_to("/dev/null")
    nodes = [{"path": "/dev/gone"}, {"path": "/dev/link"}]
    write_spec(cdi, "a.json", spec(devices=[{"name": "d", "containerEdits": {"deviceNodes": nodes}}]))
    assert [finding.text for finding in validate_directories([cdi], root=root)] == [
        "/dev/gone does not exist on the host",
        "/dev/link is a symbolic link, which runtimes do not follow",
    ]
    assert validate_directories([cdi]) == []
