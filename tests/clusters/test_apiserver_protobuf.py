"""Protobuf bodies in and out over HTTP (api-machinery section 3, client-traffic)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from apiserver_harness import CONFIG_MAPS, MERGE, PROTOBUF, SLICES, Http, config_map, resource_slice

from dra_api import wire
from dra_api.schema import GVK

ANY = GVK("", "", "")


def test_objects_in_and_out(http: Http) -> None:
    sent = wire.encode_object(resource_slice("proto"))
    answer = http.request("POST", SLICES, sent, PROTOBUF, Accept=f"{PROTOBUF},application/json")
    assert answer.code == 201, answer.body
    assert answer.headers["Content-Type"] == PROTOBUF
    assert answer.body.startswith(b"k8s\x00")
    stored = http.get(f"{SLICES}/proto").json
    assert wire.decode_object(answer.body, ANY) == stored
    changed = {**stored, "spec": {**stored["spec"], "pool": {**stored["spec"]["pool"], "generation": 2}}}
    put = http.request("PUT", f"{SLICES}/proto", wire.encode_object(changed), PROTOBUF)
    assert put.json["spec"]["pool"]["generation"] == 2


def test_lists_and_errors(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("listed"))
    body = http.get(CONFIG_MAPS, Accept=PROTOBUF).body
    listed = wire.decode_object(body, ANY)
    assert (listed["kind"], listed["items"][0]["metadata"]["name"]) == ("ConfigMapList", "listed")
    missing = wire.decode_object(http.get(f"{CONFIG_MAPS}/none", Accept=PROTOBUF).body, ANY)
    assert (missing["kind"], missing["reason"], missing["code"]) == ("Status", "NotFound", 404)
    table = http.get(CONFIG_MAPS, Accept=f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io")
    assert (table.code, table.headers["Content-Type"]) == (406, "application/json")
    partial = http.get(CONFIG_MAPS, Accept=f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    assert wire.decode_object(partial.body, ANY)["kind"] == "PartialObjectMetadataList"


def test_watch_frames(http: Http) -> None:
    http.created("/api/v1/namespaces", {"metadata": {"name": "frames"}})
    path = "/api/v1/namespaces/frames/configmaps"
    http.created(path, config_map("a"))
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    answer = http.get(f"{path}?{query}", Accept=PROTOBUF)
    assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
    frames, rest = wire.split_frames(answer.body)
    events = [wire.decode_watch_event(frame) for frame in frames]
    assert rest == b""
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK"]
    assert events[0][1]["metadata"]["name"] == "a"
    assert events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_patches_are_json_inside(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("patched"))
    answer = http.patch(f"{CONFIG_MAPS}/patched", {"data": {"a": "b"}}, MERGE, Accept=PROTOBUF)
    assert wire.decode_object(answer.body, ANY)["data"] == {"a": "b"}


@pytest.mark.parametrize("version", ["v1", "meta.k8s.io/v1"])
def test_delete_options(http: Http, version: str) -> None:
    http.created(CONFIG_MAPS, config_map("gone"))
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": version, "preconditions": {"uid": "x"}}
    assert http.request("DELETE", f"{CONFIG_MAPS}/gone", wire.encode_object(options), PROTOBUF).code == 409
    options["preconditions"] = None
    assert http.request("DELETE", f"{CONFIG_MAPS}/gone", wire.encode_object(options), PROTOBUF).code == 200


def test_reviews_and_tokens(http: Http) -> None:
    review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
              "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}  # fmt: skip
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = http.request("POST", path, wire.encode_object(review), PROTOBUF, Accept=PROTOBUF)
    assert wire.decode_object(answer.body, ANY)["status"]["allowed"] is True
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = http.request("POST", path, wire.encode_object(request), PROTOBUF, Accept=PROTOBUF)
    assert wire.decode_object(answer.body, ANY)["status"]["token"]


def test_bodies_that_are_no_protobuf(http: Http) -> None:
    answer = http.request("POST", CONFIG_MAPS, json.dumps({"metadata": {"name": "x"}}), PROTOBUF)
    assert answer.code == 400
    assert answer.json["message"].startswith(
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
        "protobuf message, expected prefix [107 56 115 0]"
    )
