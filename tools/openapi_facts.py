"""Writes which fields are required and which values they may have: `python -m tools.openapi_facts`.

The facts are those of the OpenAPI definitions in the Go module k8s.io/kubernetes (`go mod download` fetches it), at
the version named here; the texts of those definitions stay there.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VERSION = "v1.37.2"
TARGET = Path(__file__).parents[1] / "clusters" / "embedded" / "apiserver" / "explain" / "facts.json"
PACKAGES = frozenset(
    {"admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "coordination", "core",
     "events", "meta", "policy", "rbac", "resource", "scheduling"}
)  # fmt: skip
_FUNCTION = re.compile(r"func schema_(?:k8sio_api|pkg_apis)_([a-z]+)_(v[0-9a-z]+)_(\w+)\(")
_PROPERTY = re.compile(r'\t{5}"(\w+)": \{')
_ENUM = re.compile(r"\t{7}Enum: +\[\]interface\{\}\{(.*)\},")
_REQUIRED = re.compile(r"\t{4}Required: +\[\]string\{(.*)\},")


def main() -> None:
    """Write the file."""
    command = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"]
    answer = subprocess.run(command, capture_output=True, check=True, text=True)
    folder = Path(json.loads(answer.stdout)["Dir"])
    source = folder / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go"
    found = facts(source.read_text().splitlines())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
    TARGET.write_text(f"{{\n{lines}\n}}\n")


def facts(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`required` and `enum` by the name of the message in dra_api.schema, such as core/v1.Pod."""
    result: dict[str, dict[str, Any]] = {}
    message = field = ""
    for line in lines:
        if match := _FUNCTION.match(line):
            package, version, name = match.groups()
            message = f"{package}/{version}.{name}" if package in PACKAGES else ""
        elif not message:
            continue
        elif match := _PROPERTY.fullmatch(line):
            field = match[1]
        elif match := _ENUM.fullmatch(line):
            values = json.loads(f"[{match[1]}]")
            result.setdefault(message, {}).setdefault("enum", {})[field] = values
        elif match := _REQUIRED.fullmatch(line):
            result.setdefault(message, {})["required"] = json.loads(f"[{match[1]}]")
    return result


if __name__ == "__main__":
    main()
