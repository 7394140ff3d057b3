"""Container Device Interface specs: model, validation, directory scan, resolution, application, writing.

The behaviour is that of the Go library 1.1.2, which container runtimes share; see the modules for the rules.
"""

from __future__ import annotations

from node_api.cdi.checks import SpecError, minimum_version
from node_api.cdi.container import (
    Container,
    HostNode,
    InjectionError,
    NotADeviceNodeError,
    apply,
    host_nodes,
    start_problems,
)
from node_api.cdi.directory import Definition, Directory, Resolution, Scan, SpecFile, resolve, scan
from node_api.cdi.findings import Finding, validate, validate_directories, validate_request
from node_api.cdi.model import Edits, Spec
from node_api.cdi.parse import parse_spec
from node_api.cdi.write import remove_spec, write_spec

__all__ = [
    "Container",
    "Definition",
    "Directory",
    "Edits",
    "Finding",
    "HostNode",
    "InjectionError",
    "NotADeviceNodeError",
    "Resolution",
    "Scan",
    "Spec",
    "SpecError",
    "SpecFile",
    "apply",
    "host_nodes",
    "minimum_version",
    "parse_spec",
    "remove_spec",
    "resolve",
    "scan",
    "start_problems",
    "validate",
    "validate_directories",
    "validate_request",
    "write_spec",
]
