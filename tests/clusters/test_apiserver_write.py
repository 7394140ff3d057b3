"""Create, update and patch over HTTP (api-machinery sections 5 to 8)."""

from __future__ import annotations

import re
from typing import Any

from apiserver_harness import (
    APPLY,
    CLAIMS,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    SLICES,
    STRATEGIC,
    Http,
    claim,
    config_map,
    pod,
    resource_slice,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return {**body, "code": code}


def test_create_answers_with_the_stored_object(http: Http) -> None:
    answer = http.post(CONFIG_MAPS, config_map("created", a="b"))
    metadata = answer.json["metadata"]
    assert answer.code == 201
    assert answer.json["kind"], answer.json["apiVersion"] == ("ConfigMap", "v1")
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"]
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 1
    assert metadata["namespace"] == "default"
    assert "generation" not in metadata
    entry = metadata["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("tester", "Update")
    assert entry["fieldsV1"] == {"f:data": {".": {}, "f:a": {}}}
    assert http.get(f"{CONFIG_MAPS}/created").json == answer.json


def test_system_fields_of_the_client_are_ignored(http: Http) -> None:
    metadata = {
        "name": "system-fields",
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
        "generation": 7,
    }
    stored = http.created(CONFIG_MAPS, {"metadata": metadata})["metadata"]
    assert stored["uid"] != "mine"
    assert not stored["creationTimestamp"].startswith("2001")
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & stored.keys()
    assert stored["generation"] == 7, "kinds without generation rules keep it"


def test_resource_version_on_create_is_an_error(http: Http) -> None:
    answer = http.post(CONFIG_MAPS, {"metadata": {"name": "rv", "resourceVersion": "5"}})
    assert answer.json == status(500, "", "resourceVersion should not be set on objects to be created")
    assert http.post(CONFIG_MAPS, {"metadata": {"name": "rv", "resourceVersion": "0"}}).code == 201


def test_generated_names(http: Http) -> None:
    short = http.created(CONFIG_MAPS, {"metadata": {"generateName": "gen-"}})["metadata"]
    assert re.fullmatch("gen-[bcdfghjklmnpqrstvwxz2456789]{5}", short["name"])
    assert short["generateName"] == "gen-"
    # 58 characters of the prefix and 5 of the suffix.
    long = http.created(CONFIG_MAPS, {"metadata": {"generateName": "x" * 70}})["metadata"]
    assert len(long["name"]) == 63
    assert long["name"].startswith("x" * 58)


def test_no_name_at_all(http: Http) -> None:
    answer = http.post(CONFIG_MAPS, {"metadata": {}})
    cause = {"reason": "FieldValueRequired", "message": "Required value: name or generateName is required",
             "field": "metadata.name"}  # fmt: skip
    message = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    assert answer.json == status(422, "Invalid", message, {"kind": "ConfigMap", "causes": [cause]})


def test_namespace_rules(http: Http) -> None:
    other = http.post(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "kube-system"}})
    text = "the namespace of the provided object does not match the namespace sent on the request"
    assert other.json == status(400, "BadRequest", text)
    missing = http.post("/api/v1/namespaces/nope/configmaps", config_map("x"))
    assert missing.json == status(
        404, "NotFound", 'namespaces "nope" not found', {"name": "nope", "kind": "namespaces"}
    )
    node = http.created("/api/v1/nodes", {"metadata": {"name": "cleared", "namespace": "default"}})
    assert "namespace" not in node["metadata"]


def test_existing_name(http: Http) -> None:
    http.created(SLICES, resource_slice("twice"))
    details = {"name": "twice", "group": "resource.k8s.io", "kind": "resourceslices"}
    text = 'resourceslices.resource.k8s.io "twice" already exists'
    assert http.post(SLICES, resource_slice("twice")).json == status(409, "AlreadyExists", text, details)


def test_wrong_kind_and_version_of_the_body(http: Http) -> None:
    other = http.post(CONFIG_MAPS, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}})
    assert other.code == 400
    assert (
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret)'
        in other.json["message"]
    )
    version = http.post(
        CLAIMS, {**claim("x"), "kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1beta1"}
    )
    assert version.json["message"] == (
        "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version "
        "(resource.k8s.io/v1)"
    )


def test_undecodable_bodies(http: Http) -> None:
    wrong = http.post(CONFIG_MAPS, {"metadata": {"name": "x"}, "data": []})
    assert wrong.json["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal array into Go struct field '
        "ConfigMap.data of type map[string]string"
    )
    empty = http.post(CONFIG_MAPS, b"")
    assert empty.json == status(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: "
        "unexpected end of JSON input (<empty>)",
    )


def test_unknown_content_type_of_a_body(http: Http) -> None:
    answer = http.request("POST", CONFIG_MAPS, "x", "text/plain")
    assert answer.json == status(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, application/vnd.kubernetes.protobuf",
    )
    assert http.request("POST", CONFIG_MAPS, config_map("no-type"), kind=None).code == 201


def test_yaml_bodies(http: Http) -> None:
    answer = http.request(
        "POST", CONFIG_MAPS, "metadata:\n  name: yaml\ndata: {a: 'b'}\n", "application/yaml"
    )
    assert (answer.code, answer.json["data"]) == (201, {"a": "b"})


def test_field_validation(http: Http) -> None:
    body = {"metadata": {"name": "strict", "nme": "x"}, "foo": 1}
    answer = http.post(f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert answer.json["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field '
        '"metadata.nme", unknown field "foo"'
    )
    warned = http.post(f"{CONFIG_MAPS}?dryRun=All", body)
    assert warned.headers["Warning"] == (
        '299 - "unknown field \\"metadata.nme\\"", 299 - "unknown field \\"foo\\""'
    )
    assert "Warning" not in http.post(f"{CONFIG_MAPS}?dryRun=All&fieldValidation=Ignore", body).headers


def test_dry_run_stores_nothing(http: Http) -> None:
    answer = http.post(f"{CONFIG_MAPS}?dryRun=All", config_map("dry", a="b"))
    assert answer.code == 201
    assert "uid" in answer.json["metadata"]
    assert "resourceVersion" not in answer.json["metadata"]
    assert http.get(f"{CONFIG_MAPS}/dry").code == 404
    stored = http.created(CONFIG_MAPS, config_map("dry", a="b"))
    changed = http.patch(f"{CONFIG_MAPS}/dry?dryRun=All", {"data": {"a": "c"}}).json
    assert changed["data"] == {"a": "c"}
    assert changed["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert http.get(f"{CONFIG_MAPS}/dry").json == stored
    bad = http.post(f"{CONFIG_MAPS}?dryRun=foo", config_map("dry2"))
    assert bad.json["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["foo"]: supported values: "All"'
    )


def test_update_rules(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, config_map("put", a="b"))
    path = f"{CONFIG_MAPS}/put"
    changed = http.put(path, {**stored, "data": {"a": "c"}})
    assert changed.code == 200
    assert int(changed.json["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])
    stale = http.put(path, {**stored, "data": {"a": "d"}})
    assert stale.json == status(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "put": the object has been modified; please apply your changes to '
        "the latest version and try again",
        {"name": "put", "kind": "configmaps"},
    )
    assert http.put(path, config_map("put", a="e")).code == 200, "without resourceVersion it is unconditional"
    assert http.put(path, config_map("other")).json["message"] == (
        "the name of the object (other) does not match the name on the URL (put)"
    )
    foreign = http.put(path, {"metadata": {"name": "put", "uid": "x"}}).json
    assert foreign["reason"] == "Conflict"
    assert "Precondition failed: UID in precondition: x" in foreign["message"]
    missing = http.put(f"{CONFIG_MAPS}/none", config_map("none"))
    assert missing.json == status(
        404, "NotFound", 'configmaps "none" not found', {"name": "none", "kind": "configmaps"}
    )


def test_unchanged_objects_are_not_written(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, config_map("same", a="b"))
    assert http.put(f"{CONFIG_MAPS}/same", stored).json == stored
    assert http.patch(f"{CONFIG_MAPS}/same", {"data": {"a": "b"}}).json == stored


def test_generation_counts_spec_changes_only(http: Http) -> None:
    stored = http.created(SLICES, resource_slice("counted"))
    assert stored["metadata"]["generation"] == 1
    labelled = http.patch(f"{SLICES}/counted", {"metadata": {"labels": {"a": "b"}}}).json
    assert labelled["metadata"]["generation"] == 1
    changed = http.patch(f"{SLICES}/counted", {"spec": {"pool": {"generation": 2}}}).json
    assert changed["metadata"]["generation"] == 2


def test_generation_does_not_count_another_spelling_of_a_quantity(http: Http) -> None:
    def sized(value: str) -> Any:
        return resource_slice("sized", devices=[{"name": "gpu-0", "capacity": {"memory": {"value": value}}}])

    http.created(SLICES, sized("3Gi"))
    spelled = http.patch(f"{SLICES}/sized", sized("3221225472")).json
    capacity = spelled["spec"]["devices"][0]["capacity"]["memory"]["value"]
    assert (spelled["metadata"]["generation"], capacity) == (1, "3221225472")
    assert http.patch(f"{SLICES}/sized", sized("4Gi")).json["metadata"]["generation"] == 2


def test_status_and_main_endpoint_are_separate(http: Http) -> None:
    stored = http.created(CLAIMS, {**claim("parts"), "status": {"allocation": {}}})
    assert stored["status"] == {}
    main = http.patch(
        f"{CLAIMS}/parts", {"status": {"allocation": {}}, "metadata": {"labels": {"a": "b"}}}
    ).json
    assert (main["status"], main["metadata"]["labels"]) == ({}, {"a": "b"})
    body = {"status": {"allocation": {}}, "metadata": {"labels": {"c": "d"}}, "spec": {"devices": {}}}
    answer = http.patch(f"{CLAIMS}/parts/status", body)
    assert answer.code == 200, answer.body
    assert answer.json["status"] == {"allocation": {"devices": {}}}
    assert answer.json["metadata"]["labels"] == {"a": "b"}
    assert answer.json["spec"] == stored["spec"]
    assert http.get(f"{CLAIMS}/parts/status").json == answer.json


def test_invalid_objects_list_every_cause(http: Http) -> None:
    answer = http.post(SLICES, resource_slice("bad", driver="", pool={"name": "n1", "generation": 1}))
    assert answer.code == 422
    assert answer.json["details"]["kind"] == "ResourceSlice"
    fields = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert fields == {"spec.driver", "spec.pool.resourceSliceCount"}


def test_patch_types(http: Http) -> None:
    http.created(PODS, pod("patched"))
    path = f"{PODS}/patched"
    assert http.patch(path, {"metadata": {"labels": {"a": "b"}}}, MERGE).json["metadata"]["labels"] == {
        "a": "b"
    }
    operations = [{"op": "add", "path": "/metadata/labels/c", "value": "d"}]
    assert http.patch(path, operations, JSON_PATCH).json["metadata"]["labels"] == {"a": "b", "c": "d"}
    strategic = http.patch(
        path, {"spec": {"containers": [{"name": "a", "image": "probe:2"}]}}, STRATEGIC
    ).json
    assert [c["image"] for c in strategic["spec"]["containers"]] == ["probe:2"]
    assert strategic["metadata"]["generation"] == 2
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "patched", "annotations": {"x": "y"}}}
    applied = http.patch(f"{path}?fieldManager=m", config, APPLY).json
    assert applied["metadata"]["annotations"] == {"x": "y"}
    assert applied["metadata"]["managedFields"][0]["operation"] == "Apply"


def test_apply_creates(http: Http) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
    path = f"{CONFIG_MAPS}/applied?fieldManager=m"
    created = http.patch(path, config, APPLY)
    assert created.code == 201, created.body
    again = http.patch(path, config, APPLY)
    assert (again.code, again.json) == (200, created.json)
    conflict = http.patch(f"{CONFIG_MAPS}/applied?fieldManager=n", {**config, "data": {"a": "c"}}, APPLY)
    assert conflict.json["message"] == 'Apply failed with 1 conflict: conflict with "m": .data.a'
    forced = http.patch(
        f"{CONFIG_MAPS}/applied?fieldManager=n&force=true", {**config, "data": {"a": "c"}}, APPLY
    )
    assert forced.json["data"] == {"a": "c"}
    no_manager = http.patch(f"{CONFIG_MAPS}/applied", config, APPLY).json
    assert no_manager["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


def test_patch_errors(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("patch-errors", a="b"))
    path = f"{CONFIG_MAPS}/patch-errors"
    assert http.patch(path, {}, "application/json").json == status(
        415, "UnsupportedMediaType", "415: Unsupported Media Type", {}
    )
    assert http.patch(f"{CONFIG_MAPS}/none", {}).code == 404
    stale = http.patch(path, {"metadata": {"resourceVersion": "1"}}).json
    assert (stale["reason"], stale["code"]) == ("Conflict", 409)
    assert http.patch(path, {"metadata": {"uid": "x"}}).code == 422
    failed = http.patch(path, [{"op": "test", "path": "/data/a", "value": "c"}], JSON_PATCH).json
    assert (failed["code"], failed["details"]) == (422, {})
    strict = http.patch(f"{path}?fieldValidation=Strict", {"foo": 1})
    assert strict.code == 422
    assert strict.json["message"].startswith(' "" is invalid: patch: Invalid value: "{')


def test_finalizers_hold_an_object_and_its_removal_ends_it(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, {"metadata": {"name": "held", "finalizers": ["a.b/c"]}})
    path = f"{CONFIG_MAPS}/held"
    held = http.delete(path)
    assert held.code == 200
    assert held.json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert "deletionTimestamp" in held.json["metadata"]
    assert http.delete(path).json == held.json
    more = http.patch(path, {"metadata": {"finalizers": ["a.b/c", "x.y/z"]}}).json
    assert 'found new finalizers []string{"x.y/z"}' in more["message"]
    last = http.patch(path, {"metadata": {"finalizers": None}})
    assert (last.code, last.json["metadata"]["uid"]) == (200, stored["metadata"]["uid"])
    assert last.json["metadata"]["resourceVersion"] == held.json["metadata"]["resourceVersion"]
    assert http.get(path).code == 404


def test_too_large_a_body(http: Http) -> None:
    answer = http.post(CONFIG_MAPS, b"x" * (3 * 1024 * 1024 + 1))
    assert answer.json == status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    big = http.post(CONFIG_MAPS, config_map("big", a="x" * (1024 * 1024 + 1)))
    assert big.code == 422
    assert "Too long: may not be more than 1048576 bytes" in big.json["message"]
