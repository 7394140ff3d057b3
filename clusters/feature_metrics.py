"""The metric by which a component of Kubernetes tells its feature gates: `kubernetes_feature_enabled`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from clusters import gates
from clusters.gates import Stage

_NAME: Final = "kubernetes_feature_enabled"
_LINE: Final = re.compile(rf'^{_NAME}\{{name="([^"]+)",stage="[^"]*"\}} (\d)', re.MULTILINE)


def text(values: Mapping[str, bool], version: str = gates.LATEST) -> str:
    """The metric in the text format of Prometheus, for the gates of a Kubernetes minor by their effective values."""
    lines = [
        f"# HELP {_NAME} [BETA] This metric records the data about the stage and enablement of a k8s feature.",
        f"# TYPE {_NAME} gauge",
    ]
    table = gates.known(version)
    for name in sorted(set(values) & set(table)):
        stage = table[name].stage
        # A feature that is generally available has no stage there.
        word = "" if stage is Stage.GA else stage.name
        lines.append(f'{_NAME}{{name="{name}",stage="{word}"}} {int(values[name])}')
    return "\n".join(lines) + "\n"


def parse(metrics: str) -> dict[str, bool]:
    """Every gate's value in the metrics of a component; a gate that is not there is one it does not have."""
    return {name: value == "1" for name, value in _LINE.findall(metrics)}
