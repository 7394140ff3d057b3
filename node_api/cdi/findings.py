"""The CDI validator: everything that a runtime refuses, and what is legal but breaks elsewhere.

Errors follow the code of the library, not the JSON schema, which no runtime loads.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from node_api.cdi.checks import SpecError, minimum_version, spec_problems, version_key
from node_api.cdi.directory import EXTENSIONS, Scan, UnresolvableError, read_regular, scan
from node_api.cdi.model import VERSIONS, DeviceNode, Edits, Spec
from node_api.cdi.names import qualified_name_problem, quote, split_kind
from node_api.cdi.parse import compose, decode_spec, short_tag

Severity = Literal["error", "warning"]

_DOCUMENT_END = re.compile(r"^(---|\.\.\.)(\s|$)", re.MULTILINE)
_PREFIX = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?)")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ANNOTATIONS_LIMIT = 256 * 1024


class Finding(NamedTuple):
    """One finding: `error` (a runtime refuses it) or `warning`, the field or file, and the reason."""

    severity: Severity
    where: str
    text: str


def _warn(where: str, text: str) -> Finding:
    return Finding("warning", where, text)


def _error(where: str, text: str) -> Finding:
    return Finding("error", where, text)


def validate(
    spec: bytes | str | dict[str, Any], path: str = "", *, newest: str = VERSIONS[-1]
) -> list[Finding]:
    """Check the content of one spec file.

    Args:
        spec: the content of a file, or an object.
        path: for messages.
        newest: the highest cdiVersion that the runtime knows (0.8.0: containerd 2.0, 1.0.0: 2.1, 2.2).

    Returns:
        Findings in document order, errors and warnings mixed; no error means that a runtime loads it.
    """
    try:
        decoded = decode_spec(spec, path)
    except SpecError as problem:
        return [_error("", str(problem))]
    found = [_error(problem.where, problem.text) for problem in spec_problems(decoded)]
    if not isinstance(spec, dict):
        found += _text_warnings(spec)
    found += _version_findings(decoded, newest)
    found += _kind_findings(decoded.kind)
    for where, pairs in _annotations(decoded):
        found += _annotation_warnings(where, pairs)
    found += _edits_warnings("containerEdits", decoded.edits)
    for index, device in enumerate(decoded.devices):
        found += _edits_warnings(f"devices[{index}].containerEdits", device.edits)
    return found


def _version_findings(spec: Spec, newest: str) -> Iterator[Finding]:
    given = spec.version.removeprefix("v")
    if given not in VERSIONS:
        return
    if version_key(given) > version_key(newest):
        yield _error("cdiVersion", f"version {given} is above {newest}, the newest that the runtime accepts")
    try:
        least = minimum_version(spec)
    except SpecError:
        return
    # 0.5.0 is a sensible floor: names that start with a digit need it.
    if version_key(given) > max(version_key(least), version_key("0.5.0")):
        text = f"version {given} is higher than the content needs ({least}): older runtimes refuse it"
        yield _warn("cdiVersion", text)


def _kind_findings(kind: str) -> Iterator[Finding]:
    for part, what in zip(split_kind(kind), ("vendor", "class"), strict=True):
        if len(part) == 1 and part.isascii() and part.isalpha():
            text = f"{what} {quote(part)} has one letter, on which libraries up to 1.1.0 crash"
            yield _error("kind", text)


def _annotations(spec: Spec) -> Iterator[tuple[str, dict[str, str]]]:
    yield "annotations", spec.annotations
    for index, device in enumerate(spec.devices):
        yield f"devices[{index}].annotations", device.annotations


def _annotation_warnings(where: str, pairs: dict[str, str]) -> Iterator[Finding]:
    for key in pairs:
        prefix, slash, name = key.rpartition("/")
        bad_prefix = bool(slash) and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix))
        if bad_prefix or len(name) > 63 or not _QUALIFIED.fullmatch(name):
            yield _warn(where, f"key {quote(key)} is not a qualified name as Kubernetes wants it")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in pairs.items())
    if size > _ANNOTATIONS_LIMIT:
        yield _warn(where, f"annotations have {size} bytes, Kubernetes allows {_ANNOTATIONS_LIMIT}")


def _node_warnings(where: str, node: DeviceNode) -> Iterator[Finding]:
    for key, path in (("path", node.path), ("hostPath", node.host_path)):
        if path and not path.startswith("/"):
            yield _warn(f"{where}.{key}", f"path {quote(path)} is not absolute")
    if node.permissions == "none":
        text = 'permissions "none" need library 1.1.1, and OCI runtimes may refuse the empty access'
        yield _warn(f"{where}.permissions", text)
    if node.type == "u" and node.major == 0:
        yield _warn(f"{where}.type", "type u without major always fails at injection")
    if node.file_mode is not None and node.file_mode > 0o7777:
        yield _warn(f"{where}.fileMode", f"mode {node.file_mode} is above 07777 (4095)")
    elif node.file_mode is not None and f"{node.file_mode}" in ("600", "640", "644", "660", "664", "666"):
        octal = int(f"{node.file_mode}", 8)
        text = f"mode {node.file_mode} is decimal, {node.file_mode:#o}: octal 0{node.file_mode} is {octal}"
        yield _warn(f"{where}.fileMode", text)


def _edits_warnings(where: str, edits: Edits) -> Iterator[Finding]:
    for index, node in enumerate(edits.device_nodes):
        if node is not None:
            yield from _node_warnings(f"{where}.deviceNodes[{index}]", node)
    for index, mount in enumerate(edits.mounts):
        if mount is None:
            continue
        here = f"{where}.mounts[{index}]"
        if mount.type in ("", "bind") and not {"bind", "rbind"} & set(mount.options):
            text = "neither bind nor rbind in options: OCI runtimes fail with 'no such device'"
            yield _warn(f"{here}.options", text)
        for key, path in (("hostPath", mount.host_path), ("containerPath", mount.container_path)):
            if path and not path.startswith("/"):
                yield _warn(f"{here}.{key}", f"path {quote(path)} is not absolute")
    for index, hook in enumerate(edits.hooks):
        if hook is None:
            continue
        here = f"{where}.hooks[{index}]"
        if hook.path and not hook.path.startswith("/"):
            yield _warn(f"{here}.path", f"path {quote(hook.path)} is not absolute: OCI demands it")
        if hook.timeout is not None and hook.timeout <= 0:
            yield _warn(f"{here}.timeout", f"timeout {hook.timeout} is not positive: OCI demands it")


def _text_warnings(data: bytes | str) -> Iterator[Finding]:
    """Warnings about the writing rather than the content."""
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    node = compose(data)
    # The first marker may open the only document.
    markers = list(_DOCUMENT_END.finditer(text))
    start = node.start_mark.index if node is not None else 0
    if any(marker.start() > start and text[marker.end() :].strip() for marker in markers):
        yield _warn("", "more than one document: only the first is read")
    if node is not None:
        yield from _unquoted("", node)


def _unquoted(where: str, node: Node) -> Iterator[Finding]:
    if isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            yield from _unquoted(f"{where}[{index}]", item)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            name = str(getattr(key, "value", ""))
            here = f"{where}.{name}" if where else name
            text_field = isinstance(value, ScalarNode) and name in ("name", "cdiVersion", "kind")
            if text_field and short_tag(value) in ("!!int", "!!float", "!!bool"):
                text = f"{value.value} without quotes is no text: libraries up to 1.1.0 re-format it"
                yield _warn(here, text)
            else:
                yield from _unquoted(here, value)


def validate_directories(
    directories: Sequence[str | os.PathLike[str]],
    *,
    root: str | os.PathLike[str] | None = None,
    newest: str = VERSIONS[-1],
) -> list[Finding]:
    """Check all files of the directories, and what they are to each other; `where` starts with the path.

    Args:
        directories: in the runtime's order, lowest priority first.
        root: where device nodes of the specs are looked up ("/" on the host itself); None skips that.
        newest: see `validate`.
    """
    found: list[Finding] = []
    for directory in directories:
        if not os.path.lexists(directory):
            continue
        try:
            paths = sorted(Path(directory).iterdir())
        except OSError as problem:
            text = f"cannot be listed ({problem.strerror}): this and all later directories are ignored"
            found.append(_error(str(directory), text))
            continue
        for path in paths:
            found += _file_findings(path, root, newest)
    scanned = scan(directories)
    found += [
        _error(bad, text)
        for bad, texts in scanned.errors.items()
        for text in texts
        if text.startswith("conflicting device")
    ]
    return found


def _file_findings(path: Path, root: str | os.PathLike[str] | None, newest: str) -> Iterator[Finding]:
    where = str(path)
    name = path.name
    if name.endswith(".tmp"):
        yield _warn(where, "left-over temporary file")
    elif name.endswith(".yml"):
        yield _warn(where, "extension .yml is not read: use .yaml")
    if not name.endswith(EXTENSIONS) or (path.is_dir() and not path.is_symlink()):
        return
    if name.startswith("."):
        yield _warn(where, "hidden file: it is read as any other")
    if path.is_symlink():
        yield _warn(where, "symbolic link: changes of its target go unnoticed")
    try:
        mode = path.stat().st_mode
        content = read_regular(where)
    except OSError as problem:
        yield _error(where, f"cannot be read: {problem}")
        return
    if not mode & stat.S_IROTH:
        yield _warn(
            where, f"mode {stat.S_IMODE(mode):04o}: readable only if the runtime is its owner or root"
        )
    findings = validate(content, where, newest=newest)
    for finding in findings:
        yield finding._replace(where=f"{where}: {finding.where}" if finding.where else where)
    if root is not None and not any(finding.severity == "error" for finding in findings):
        yield from _host_findings(where, decode_spec(content), str(root))


def _host_findings(where: str, spec: Spec, root: str) -> Iterator[Finding]:
    listed = [("containerEdits", spec.edits)]
    listed += [(f"devices[{i}].containerEdits", device.edits) for i, device in enumerate(spec.devices)]
    for prefix, edits in listed:
        for index, node in enumerate(filter(None, edits.device_nodes)):
            path = node.host_path or node.path
            here = f"{where}: {prefix}.deviceNodes[{index}]"
            try:
                mode = os.lstat(f"{root.rstrip('/')}/{path.lstrip('/')}").st_mode
            except OSError:
                yield _warn(here, f"{path} does not exist on the host")
                continue
            if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
                kind = "symbolic link" if stat.S_ISLNK(mode) else "directory"
                yield _warn(here, f"{path} is a {kind}, which runtimes do not follow")


def validate_request(ids: Sequence[str], scanned: Scan) -> list[Finding]:
    """Check ids as a Prepare answer gives them against the scanned directories.

    Errors: malformed ids and ids that no file defines. Warnings: edits of one request that overwrite each
    other, because their order is that of the runtime, not of the driver.
    """
    found: list[Finding] = []
    for device_id in ids:
        if text := qualified_name_problem(device_id):
            found.append(_error(device_id, text))
        elif device_id not in scanned.devices:
            why = "in conflict inside a directory" if device_id in scanned.conflicts else "in no spec file"
            found.append(_error(device_id, f"unresolvable CDI device {device_id}: {why}"))
    try:
        edits = scanned.resolve(ids).edits
    except UnresolvableError:
        return found
    for what, keys in (
        ("environment variable", [variable.partition("=")[0] for variable in edits.env]),
        ("device node", [node.path for node in edits.device_nodes if node]),
        ("mount destination", [mount.container_path for mount in edits.mounts if mount]),
    ):
        repeated = dict.fromkeys(key for key in keys if keys.count(key) > 1)
        found += [
            _warn(key, f"{what} {key} is set {keys.count(key)} times in one request") for key in repeated
        ]
    return found
