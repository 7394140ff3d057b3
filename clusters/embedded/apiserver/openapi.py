"""OpenAPI documents: as much as kubectl needs to trust the server's own validation, and for explain (section 4)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from clusters.embedded.apiserver import openapi_v2
from clusters.embedded.apiserver.explain import texts
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from dra_api.schema import GVK, Field, Message, load

_MACHINERY: Final = "io.k8s.apimachinery.pkg"
_SCALARS: Final[dict[str, dict[str, Any]]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "strings": {"type": "array", "items": {"type": "string"}},
}
# Types of the API machinery that have a schema of their own, by whose name kubectl explains fields.
_NAMED: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "quantity": ("api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "intorstring": (
        "util.intstr.IntOrString",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
    "raw": ("runtime.RawExtension", {"type": "object"}),
    "fieldsv1": ("apis.meta.v1.FieldsV1", {"type": "object"}),
}
_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


def _schema_name(message: Message) -> str:
    package, _, version_and_name = message.name.partition("/")
    if package == "meta":
        return f"{_MACHINERY}.apis.meta.{version_and_name}"
    return f"io.k8s.api.{package}.{version_and_name}"


class OpenApi:
    """The documents of one server, made when asked for."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._documents: dict[str, tuple[bytes, str]] = {}

    def index(self) -> dict[str, Any]:
        """The answer to /openapi/v3."""
        paths: dict[str, Any] = {}
        for group, versions in self._resources.groups().items():
            for version in versions:
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={self.hash(name)}"}
        return {"paths": paths}

    def hash(self, name: str) -> str:
        """The hash of a document such as `apis/resource.k8s.io/v1`."""
        return self.document(name)[1]

    def exists(self, name: str) -> bool:
        """Whether there is such a document."""
        parts = name.split("/")
        if parts[0] == "api" and len(parts) == 2:
            return parts[1] in self._resources.groups().get("", ())
        return (
            parts[0] == "apis" and len(parts) == 3 and parts[2] in self._resources.groups().get(parts[1], ())
        )

    def document(self, name: str) -> tuple[bytes, str]:
        """Body and hash of a document that exists."""
        found = self._documents.get(name)
        if found is None:
            parts = name.split("/")
            group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
            body = json.dumps(self._build(group, version), separators=(",", ":")).encode() + b"\n"
            found = self._documents[name] = body, hashlib.sha256(body).hexdigest().upper()
        return found

    def version_2(self, *, protobuf: bool) -> tuple[bytes, str]:
        """Body and hash of the v2 document, in JSON or protobuf."""
        name = "v2 protobuf" if protobuf else "v2 JSON"
        found = self._documents.get(name)
        if found is None:
            versions = [
                (group, version) for group, each in self._resources.groups().items() for version in each
            ]
            document = openapi_v2.document(self._build(*version) for version in versions)
            text = json.dumps(document, separators=(",", ":")).encode() + b"\n"
            digest = hashlib.sha256(text).hexdigest().upper()
            self._documents["v2 JSON"] = text, digest
            self._documents["v2 protobuf"] = openapi_v2.encode(document), digest
            found = self._documents[name]
        return found

    def _build(self, group: str, version: str) -> dict[str, Any]:
        paths: dict[str, Any] = {}
        schemas: dict[str, Any] = {}
        for served in self._resources.of(group, version):
            message = load().kind(GVK(group, version, served.resource.kind))
            if message is None:
                continue
            kind = {"group": group, "version": version, "kind": served.resource.kind}
            _add_schema(schemas, message)
            entry = dict(schemas[_schema_name(message)])
            entry["x-kubernetes-group-version-kind"] = [kind]
            schemas[_schema_name(message)] = entry
            if "patch" in served.resource.verbs:
                paths[f"{_path(served)}/{{name}}"] = {"patch": _operation("patch", kind)}
            else:
                paths[_path(served)] = {"post": _operation("post", kind)}
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.37.2"},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _path(served: Served) -> str:
    resource = served.resource
    root = f"/apis/{resource.group}/{served.version}" if resource.group else f"/api/{served.version}"
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{namespace}/{resource.plural}"


def _operation(action: str, kind: dict[str, str]) -> dict[str, Any]:
    return {
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
    }


def _add_schema(schemas: dict[str, Any], message: Message) -> None:
    name = _schema_name(message)
    if name in schemas:
        return
    schemas[name] = {}
    facts, told = texts.facts(message.name), texts.texts(message)
    enums = facts.get("enum", {})
    properties = {
        field.name: _property(schemas, field, told.get(field.name, ""), enums.get(field.name))
        for field in message.fields.values()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if "" in told:
        schema = {"description": told[""], **schema}
    if facts.get("required"):
        schema["required"] = facts["required"]
    schemas[name] = schema


def _reference(name: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}]}


def _property(
    schemas: dict[str, Any], field: Field, description: str, enum: list[str] | None
) -> dict[str, Any]:
    if field.type == "message":
        _add_schema(schemas, field.message)
        one = _reference(_schema_name(field.message))
    elif field.type in _NAMED:
        name, schema = _NAMED[field.type]
        schemas[f"{_MACHINERY}.{name}"] = schema
        one = _reference(f"{_MACHINERY}.{name}")
    else:
        one = dict(_SCALARS[field.type])
    if field.shape == "list":
        result: dict[str, Any] = {"type": "array", "items": one}
    elif field.shape == "map":
        result = {"type": "object", "additionalProperties": one}
    else:
        result = one
    if description:
        result["description"] = description
    if enum:
        result["enum"] = enum
    if field.list_type:
        result["x-kubernetes-list-type"] = field.list_type
    if field.list_keys:
        result["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.map_type:
        result["x-kubernetes-map-type"] = field.map_type
    if field.patch_strategy:
        result["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
    if field.patch_merge_key:
        result["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    return result
