"""What a container left to be said about its end: in its termination log, or in the end of its output."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clusters.containers.log_reader import parse_line
from clusters.containers.model import ContainerStatus

PATH_ANNOTATION: Final = "io.kubernetes.container.terminationMessagePath"
POLICY_ANNOTATION: Final = "io.kubernetes.container.terminationMessagePolicy"
_MESSAGE_BYTES: Final = 4096
_LOG_BYTES, _LOG_LINES = 2048, 80


def termination_message(found: ContainerStatus) -> str:
    """The message of a container that has ended, after what the runtime says."""
    own, wants_log = _from_file(found)
    if wants_log:
        own = _from_log(found)
    return ": ".join(text for text in (found.message, own) if text)


def _from_file(found: ContainerStatus) -> tuple[str, bool]:
    policy = found.config.annotations.get(POLICY_ANNOTATION)
    fallback = policy == "FallbackToLogsOnError" and found.exit_code != 0
    path = found.config.annotations.get(PATH_ANNOTATION)
    mount = next((item for item in found.config.mounts if path and item.container_path == path), None)
    if mount is None:
        return "", fallback
    try:
        with Path(mount.host_path).open("rb") as file:
            data = file.read(_MESSAGE_BYTES)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return f"Error on reading termination log {mount.host_path}: open {mount.host_path}: {reason}", False
    return data.decode("utf-8", "replace"), fallback and not data


def _from_log(found: ContainerStatus) -> str:
    """The last lines of the output."""
    try:
        content = Path(found.log_path).read_bytes()
    except OSError as error:
        return f"Error reading termination message from logs: {error}"
    lines = [parse_line(line + b"\n") for line in content.split(b"\n")[-_LOG_LINES - 1 :] if line]
    data = b"".join(line.text for line in lines if line is not None)
    return data[-_LOG_BYTES:].decode("utf-8", "replace")
