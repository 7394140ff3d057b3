"""The OpenAPI v2 document, in JSON and in protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_harness import Http

ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
ANSWERED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
POD = "io.k8s.api.core.v1.Pod"


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of a message of which every field is length-delimited."""
    position = 0

    def number() -> int:
        nonlocal position
        result = shift = 0
        while True:
            byte = data[position]
            position += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while position < len(data):
        key = number()
        assert key & 7 == 2
        length = number()
        yield key >> 3, data[position : position + length]
        position += length


def named(data: bytes) -> dict[str, bytes]:
    """The entries of a map of names."""
    entries = [dict(fields(content)) for _, content in fields(data)]
    return {entry[1].decode(): entry[2] for entry in entries}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        assert not {"allOf", "oneOf"} & (value.keys() - (value.get("properties") or {}).keys())
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)


def test_every_reference_has_its_definition(http: Http) -> None:
    document = http.get("/openapi/v2").json
    assert document["swagger"] == "2.0"
    definitions = document["definitions"]
    assert definitions[POD]["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert definitions[POD]["x-kubernetes-group-version-kind"] == [
        {"group": "", "version": "v1", "kind": "Pod"}
    ]
    found = {reference.removeprefix("#/definitions/") for reference in references(definitions)}
    assert found <= set(definitions)
    requests = definitions["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["requests"]
    # A quantity is a text to v2, as in the document of a real server.
    quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert requests["additionalProperties"] == {"$ref": f"#/definitions/{quantity}"}
    assert definitions[quantity] == {"type": "string"}


def test_the_protobuf_form_says_the_same(http: Http) -> None:
    expected = http.get("/openapi/v2").json["definitions"]
    answer = http.get("/openapi/v2", Accept=ASKED)
    assert (answer.code, answer.headers["Content-Type"]) == (200, ANSWERED)
    document = dict(fields(answer.body))
    assert document[1] == b"2.0"
    definitions = named(document[9])
    assert set(definitions) == set(expected)
    pod = dict(fields(definitions[POD]))
    assert pod[22] == b"\x0a\x06object"  # the type, a list of one text
    properties = named(pod[25])
    assert set(properties) == set(expected[POD]["properties"])
    assert dict(fields(properties["spec"]))[1] == b"#/definitions/io.k8s.api.core.v1.PodSpec"
    extension = dict(fields(pod[31]))
    assert extension[1] == b"x-kubernetes-group-version-kind"
    assert dict(fields(extension[2]))[2] == b'[{"group": "", "version": "v1", "kind": "Pod"}]'


def test_a_client_that_has_it_is_told_so(http: Http) -> None:
    etag = http.get("/openapi/v2").headers["ETag"]
    assert http.get("/openapi/v2", If_None_Match=etag).code == 304
