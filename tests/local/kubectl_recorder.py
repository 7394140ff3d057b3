"""Records what kubectl prints, without what differs from cluster to cluster, and compares it."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubectl_kit import Kubectl, Output, masked

ALLOWED: Final[dict[tuple[str, str], str]] = {
    (
        "describe node.*",
        "(InternalIP|  (OS Image|Kernel Version|Machine ID|System UUID|Boot ID|Container Runtime).*).*",
    ): "facts of the machine",
    ("get nodes? .*wide.*", "NODE .*"): "facts of the machine",
    ("(get nodes? .*columns.*|describe node.*)", ".*(cpu|memory|ephemeral-storage|hugepages-|NODE  ).*"): (
        "nodes of a local cluster are as large as the machine"
    ),
    (
        "describe node.*",
        "PodCIDRs?:.*",
    ): "the embedded cluster gives nodes no ranges, as its runtime has its own",
    (
        "describe node.*",
        "(Annotations: +|  )(node.alpha.kubernetes.io/ttl: 0|.*controller-managed-attach-detach: true).*",
    ): "the embedded cluster has no TTL controller, which advises kubelets of many nodes",
    ("describe node.*", "  NAMESPACE  .*%.*"): "shares of nodes that are as large as the machine",
    (
        "describe node.*",
        "(Lease:|  (HolderIdentity|AcquireTime|RenewTime):|  Normal  .*kubelet  ).*",
    ): "what a kubelet writes in its first seconds comes late, or is refused as namespaces are not there yet",
    (
        "explain .*",
        "(?!.*<[a-zA-Z]+>)(?!.*enum: )(?!(GROUP|KIND|VERSION|FIELD):).*|.*<(empty|no description)>.*",
    ): ("descriptions are written for this project; fields, types and values are compared"),
    ("explain .*", " *the tuple <driver name>, <pool name>, <device name>."): "part of a description",
    ("describe (ns|namespace).*", "|No LimitRange resource."): "the embedded tier serves no LimitRanges",
    (
        "patch pod .*",
        '[-+@ ] .*("|@@).*|[-+@].*',
    ): "a real server shows the change in the names of Go's fields",
    (
        "get (ns|namespaces?)( .*)?",
        "NAMESPACE  (Active|Terminating)  AGE",
    ): "namespaces of earlier tests go slowly",
    (
        "(exec|attach|port-forward|cp) .*",
        ".*(Unimplemented|is not available).*",
    ): "a real API server leaves it to the runtime to refuse, and the embedded one refuses itself",
    ("rollout status .*", "Waiting for .*"): "which steps are seen is chance",
    ("drain .*", "(error when )?evicting pod.*|pod/.* evicted"): "which node has which Pods is chance",
    (
        "api-versions",
        r"(?!(admissionregistration|apps|authentication|authorization|batch|coordination|events|policy|rbac|resource)\b).*v\d",
    ): "groups that have nothing to do with devices are not served by the embedded tier",
    ("auth can-i --list .*", ".*clustertrustbundles.*"): "the embedded tier serves no certificates.k8s.io",
}
"""Why lines of commands may differ, by patterns for the whole command and the whole line."""

_MASKS: Final = [
    (r"\"?resourceVersion\"?: \"?\d+\"?", "resourceVersion: N"),
    (r"Resource Version:\s+\d+", "Resource Version: N"),
    (r"(?<![\w.-])(?:\d+[smhd])+(?![\w-])", "AGE"),
    (r"https://[\d.]+:\d+", "SERVER"),
    (r"\"source\": *\"[^\"]*\"", '"source":"PATH"'),
    (r"\b(?:\d+\.){3}\d+\b", "IP"),
    (r"\bw\d+\b", "NAMESPACE"),
    (r"\.[0-9a-f]{16}\b", ".EVENT"),
    (r"gpu-\d\b|fakegpu\d", "GPU"),
    (r"\"?(pod-template-hash|controller-revision-hash|hash)\"?: \S+", r"\1: HASH"),
    (r"\bnode-[12]\b", "NODE"),
    (r"/\S+/(?:home\d+|LIVE-\d+|MERGED-\d+)\S*", "PATH"),
    (r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?", "CERTIFICATE\n"),
    (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"[+-]\d{4} UTC|\t20\d\d-\d\d-\d\d [\d:.]+ \+0000", "TIME"),
]


def normal(text: str) -> list[str]:
    """The lines without names, ages, uids and padding."""
    text = masked(text)
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text)
    return [re.sub(r"[ \t]{2,}|\t", "  ", line).rstrip() for line in text.splitlines()]


@dataclass(frozen=True)
class Entry:
    """One command without its namespace, and what it printed."""

    command: str
    lines: tuple[str, ...]


class Recorder(Kubectl):
    """kubectl whose outputs are kept; of a command that is repeated at once, the last."""

    def __init__(self, binary: Path, config: Path, home: Path) -> None:
        super().__init__(binary, config, home)
        self.entries: list[Entry] = []

    def run(self, *arguments: str, text: str | None = None, **environment: str) -> Output:
        """Run and keep."""
        result = super().run(*arguments, text=text, **environment)
        words = list(arguments)
        if words[0] == "-n":
            words = words[2:]
        printed = [f"exit {result.code}", *normal(result.out), "--- err", *normal(result.err)]
        entry = Entry(" ".join(normal(" ".join(words))), tuple(printed))
        if self.entries and self.entries[-1].command == entry.command:
            self.entries.pop()
        self.entries.append(entry)
        return result


def differences(real: list[Entry], embedded: list[Entry], *, whole: bool = True) -> list[str]:
    """Lines that differ and are not allowed to, below their commands; `-` is the real server's.

    Without `whole` one may have ended earlier than the other.
    """
    if not whole:
        length = min(len(real), len(embedded))
        real, embedded = real[:length], embedded[:length]
    if [entry.command for entry in real] != [entry.command for entry in embedded]:
        commands: Any = difflib.unified_diff(
            [entry.command for entry in real],
            [entry.command for entry in embedded],
            "real",
            "embedded",
            lineterm="",
            n=0,
        )
        return ["other commands were run:", *commands]
    found: list[str] = []
    for one, other in zip(real, embedded, strict=True):
        lines = [
            line
            for line in difflib.ndiff(_comparable(one), _comparable(other))
            if line[0] in "-+" and not _allowed(one.command, line[2:])
        ]
        if lines:
            found += [f"$ kubectl {one.command}", *lines]
    return found


def _comparable(entry: Entry) -> list[str]:
    """Lines whose order is chance are sorted: managed fields go by their times, tables by names that are made up."""
    table = (
        entry.command.startswith("get ") and "-o yaml" not in entry.command and "-o json" not in entry.command
    )
    any_order = table or "--show-managed-fields" in entry.command
    return sorted(entry.lines) if any_order else list(entry.lines)


def _allowed(command: str, line: str) -> bool:
    return any(
        re.fullmatch(where, command) and re.fullmatch(what, line.strip("\n")) for where, what in ALLOWED
    )
