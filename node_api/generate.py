"""Generates node_api/gen from node_api/proto: `python -m node_api.generate`.

Generated code refuses to run on a protobuf or grpcio older than its generator, so the generator is pinned to
the lowest versions that pyproject.toml allows at run time.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

GENERATOR = "1.80.0"
"""Version of grpcio-tools that the committed code is made with (protobuf code for 6.31 and later)."""

PACKAGE = Path(__file__).resolve().parent
PROTO = PACKAGE / "proto"
# Mapped to the path of the generated modules, so that these import each other as node_api.gen.*.
_VIRTUAL = "node_api/gen"


def sources() -> list[Path]:
    """Return the .proto files in name order."""
    return sorted(PROTO.glob("*.proto"))


def _protoc(*options: str) -> None:
    # A separate process: protoc ends the process that it runs in on errors.
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_VIRTUAL}={PROTO}", *options]
    command += [f"{_VIRTUAL}/{path.name}" for path in sources()]
    subprocess.run(command, check=True)  # noqa: S603  the command is built here


def describe() -> FileDescriptorSet:
    """Return the descriptors of the .proto files, which do not depend on the generator's version."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "set")
        _protoc(f"--descriptor_set_out={output}")
        return FileDescriptorSet.FromString(output.read_bytes())


def generate() -> None:
    """Write the modules, the gRPC stubs and the type stubs into node_api/gen.

    Raises:
        RuntimeError: if the installed grpcio-tools is not the pinned one.
    """
    installed = importlib.metadata.version("grpcio-tools")
    if installed != GENERATOR:
        raise RuntimeError(
            f"grpcio-tools {installed} is installed, the code is made with {GENERATOR}: "
            f"run this in an environment with grpcio-tools=={GENERATOR}"
        )
    root = str(PACKAGE.parent)
    _protoc(f"--python_out={root}", f"--pyi_out={root}", f"--grpc_python_out={root}")


if __name__ == "__main__":
    try:
        generate()
    except RuntimeError as problem:
        sys.exit(str(problem))
