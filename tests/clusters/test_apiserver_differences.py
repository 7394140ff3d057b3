"""What a real kube-apiserver 1.37.2 answered where this one once said something else (tests/local/differential)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import (
    CLAIMS,
    CONFIG_MAPS,
    JSON_PATCH,
    PODS,
    PROTOBUF,
    SLICES,
    STRATEGIC,
    TABLE,
    Http,
    claim,
    config_map,
    connected,
    pod,
    resource_slice,
)

APPLY = "application/apply-patch+yaml"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
GROUP = "/apis/resource.k8s.io"
OLD = "5f1f4c3e-0000-4000-8000-000000000001"
END = "k8s.io/initial-events-end"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
def http() -> Iterator[Http]:
    with connected(runtime_config={"api/all": True}) as client:
        yield client


def rule(name: str, version: str = "v1") -> dict[str, Any]:
    taint = {"key": "example.com/t", "effect": "NoSchedule"}
    meta = {"name": name}
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceTaintRule",
        "metadata": meta, "spec": {"taint": taint},
    }  # fmt: skip


def sized_claim(name: str, memory: str, version: str = "v1") -> dict[str, Any]:
    body = claim(name)
    body["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": memory}}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", **body}


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_a_new_taint_rule_has_an_empty_status(http: Http) -> None:
    assert http.created(f"{GROUP}/v1/devicetaintrules", rule("a"))["status"] == {}


def test_taint_rules_are_deprecated_in_v1alpha3_alone(http: Http) -> None:
    http.created(f"{GROUP}/v1/devicetaintrules", rule("a"))
    assert "Warning" not in http.get(f"{GROUP}/v1beta2/devicetaintrules/a").headers
    assert http.get(f"{GROUP}/v1alpha3/devicetaintrules/a").headers["Warning"] == (
        '299 - "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+"'
    )


def test_a_path_that_is_not_there_is_not_deprecated(http: Http) -> None:
    answer = http.get(f"{GROUP}/v1beta1/deviceclasses/a/status")
    assert (answer.code, answer.headers.get("Warning")) == (404, None)


def test_each_warning_has_its_header(http: Http) -> None:
    answer = http.post(CONFIG_MAPS, {"metadata": {"name": "a"}, "one": 1, "two": 2})
    assert answer.headers.getlist("Warning") == [
        '299 - "unknown field \\"one\\""',
        '299 - "unknown field \\"two\\""',
    ]


def test_a_taken_name_beside_a_prefix_is_told_as_a_generated_one(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("a"))
    answer = http.post(CONFIG_MAPS, {"metadata": {"name": "a", "generateName": "b-"}})
    assert (answer.code, answer.headers["Retry-After"]) == (409, "1")
    assert answer.json["message"] == (
        'configmaps "a" already exists, the server was not able to generate a unique name for the object'
    )


def test_the_name_of_an_object_that_ends_is_taken(http: Http) -> None:
    http.created(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/one"]}})
    http.delete(f"{CONFIG_MAPS}/a")
    message = http.post(CONFIG_MAPS, config_map("a")).json["message"]
    assert message == 'object is being deleted: configmaps "a" already exists'


def test_an_object_of_another_uid_is_no_object_to_replace(http: Http) -> None:
    uid = http.created(LEASES, {"metadata": {"name": "a"}, "spec": {}})["metadata"]["uid"]
    body = {"metadata": {"name": "a", "uid": OLD, "resourceVersion": "1"}, "spec": {}}
    texts = [http.put(f"{LEASES}/a{query}", body).json["message"] for query in ("", "?dryRun=All")]
    assert texts == [
        'Operation cannot be fulfilled on leases.coordination.k8s.io "a": StorageError: invalid object, Code: 4, '
        f"Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
        f"{OLD}, UID in object meta: {uid}"
        for key in ("/registry/leases/default/a", "/leases/default/a")
    ]


def test_an_object_with_a_uid_is_not_created_by_replacing_it(http: Http) -> None:
    answer = http.put(f"{LEASES}/a", {"metadata": {"name": "a", "uid": OLD}, "spec": {}})
    assert answer.code == 409
    assert answer.json["message"].endswith(f"UID in precondition: {OLD}, UID in object meta: ")


def test_a_dry_run_keeps_the_revision_that_was_sent(http: Http) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "77"}, "spec": {}}
    assert http.put(f"{LEASES}/a?dryRun=All", body).json["metadata"]["resourceVersion"] == "77"
    assert (
        "resourceVersion"
        not in http.post(f"{LEASES}?dryRun=All", {"metadata": {"name": "a"}}).json["metadata"]
    )


def test_a_bookmark_has_what_all_of_its_kind_show(http: Http) -> None:
    with http.stream(f"{SLICES}?watch=1&allowWatchBookmarks=true") as stream:
        event = stream.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["annotations"] == {END: "true"}
    assert event["object"]["spec"] == {
        "driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    }  # fmt: skip


@pytest.mark.parametrize("query", ["", "&resourceVersion=0"])
def test_a_watch_from_anywhere_marks_the_end_of_what_was_there(http: Http, query: str) -> None:
    http.created(CONFIG_MAPS, config_map("a"))
    with http.stream(f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true{query}") as stream:
        assert [event for event, _ in stream.names(2)] == ["ADDED", "BOOKMARK"]


def test_a_bookmark_in_a_table_has_cells_of_nothing(http: Http) -> None:
    path = f"{GROUP}/v1/devicetaintrules?watch=1&allowWatchBookmarks=true"
    with http.stream(path, Accept=TABLE) as stream:
        assert stream.next()["object"]["rows"][0]["cells"] == ["", "", "", "", "", "<unknown>"]


def test_the_number_of_data_is_a_column_of_text(http: Http) -> None:
    columns = http.get(CONFIG_MAPS, Accept=TABLE).json["columnDefinitions"]
    assert [(column["name"], column["type"]) for column in columns] == [
        ("Name", "string"), ("Data", "string"), ("Age", "string"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["resourceclaims", "resourceslices"])
def test_no_objects_are_a_null_list_of_metadata(http: Http, path: str) -> None:
    assert http.get(f"{GROUP}/v1/{path}", Accept=PARTIALS).json["items"] is None


def test_a_status_is_no_table(http: Http) -> None:
    http.created(CLAIMS, claim("a"))
    answer = http.get(f"{CLAIMS}/a/status", Accept=TABLE)
    assert answer.code == 406
    assert "details" not in answer.json
    assert answer.json["message"] == (
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf"
    )
    http.created(PODS, pod("p", automountServiceAccountToken=False))
    assert http.get(f"{PODS}/p/status", Accept=TABLE).code == 200


def test_a_full_page_is_followed_by_another_if_anything_is_left(http: Http) -> None:
    http.created(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"app": "x"}}})
    http.created(CONFIG_MAPS, {"metadata": {"name": "b"}})
    path = f"{CONFIG_MAPS}?limit=1&labelSelector=app%3Dx"
    first = http.get(path).json
    rest = http.get(f"{path}&continue={first['metadata']['continue']}").json
    assert [item["metadata"]["name"] for item in first["items"]] == ["a"]
    assert (rest["items"], "continue" in rest["metadata"]) == ([], False)


def test_one_object_by_name_is_one_page(http: Http) -> None:
    for name in ("a", "b"):
        http.created(CONFIG_MAPS, config_map(name))
    found = http.get(f"{CONFIG_MAPS}?limit=1&fieldSelector=metadata.name%3Da").json
    assert (len(found["items"]), "continue" in found["metadata"]) == (1, False)


def test_pages_of_a_selected_namespace_lose_it(http: Http) -> None:
    for name in ("n", "o"):
        http.created(CONFIG_MAPS, config_map(name))
    path = "/api/v1/configmaps?limit=1&fieldSelector=metadata.namespace%3Ddefault"
    first = http.get(path).json
    assert [item["metadata"]["name"] for item in first["items"]] == ["n"]
    # The next page begins after "n" among keys of all namespaces, where "default/o" stands before it.
    assert http.get(f"{path}&continue={first['metadata']['continue']}").json["items"] == []


def test_a_template_is_quoted_with_the_names_of_go(http: Http) -> None:
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": claim("c")["spec"]}
    http.created(TEMPLATES, {"metadata": {"name": "a"}, "spec": spec})
    spec["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    message = http.put(f"{TEMPLATES}/a", {"metadata": {"name": "a"}, "spec": spec}).json["message"]
    assert message == (
        'ResourceClaimTemplate.resource.k8s.io "a" is invalid: spec: Invalid value: {"labels":{"a":"b"},"Spec":'
        '{"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"gpu.example.com","Selectors":null,'
        '"AllocationMode":"ExactCount","Count":2,"AdminAccess":null,"Tolerations":null,"Capacity":null,'
        '"DerivedAttributes":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}}: field is immutable'
    )


@pytest.mark.parametrize(
    ("stored", "sent", "owner"),
    [
        ("1.5", "1.5", "two"), ("1500m", "1500m", "one"), ("1.5", "1500m", "one"), ("1Gi", "1024Mi", "two"),
        ("1024Mi", "1Gi", "one"), ("1000", "1k", "one"), ("1000", "1000", "two"), ("1", "1.0", "two"),
        ("7Gi", "7168Mi", "two"), ("8Gi", "8192Mi", "one"),
    ],
)  # fmt: skip
def test_a_list_belongs_to_who_spelled_its_quantities_anew(
    http: Http, stored: str, sent: str, owner: str
) -> None:
    first = http.created(f"{CLAIMS}?fieldManager=one", sized_claim("a", stored))
    second = http.put(f"{CLAIMS}/a?fieldManager=two", sized_claim("a", sent)).json
    assert [name for name, owned in owners(second).items() if "f:spec" in owned] == [owner]
    same = first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert same == (owner == "one")
    assert second["spec"] == first["spec"]


def test_a_respelled_quantity_is_stored_and_shown_as_any_other(http: Http) -> None:
    answer = http.post(CLAIMS, sized_claim("a", "1024Mi"), Accept="application/yaml")
    assert (answer.code, b"memory: 1Gi" in answer.body) == (201, True)
    assert http.get(f"{CLAIMS}/a", Accept=PROTOBUF).code == 200


def test_limits_of_containers_have_no_spelling(http: Http) -> None:
    def limited(memory: str) -> dict[str, Any]:
        container = {"name": "a", "image": "b", "resources": {"limits": {"memory": memory}}}
        return {
            "metadata": {"name": "p"},
            "spec": {"automountServiceAccountToken": False, "containers": [container]},
        }

    http.created(f"{PODS}?fieldManager=one", limited("1024Mi"))
    seen = http.patch(f"{PODS}/p?fieldManager=two", limited("1024Mi"), STRATEGIC).json
    assert list(owners(seen)) == ["one"]


def test_spelling_is_lost_in_other_versions(http: Http) -> None:
    config = sized_claim("a", "1024Mi", "v1beta2")
    http.patch(f"{GROUP}/v1beta2/namespaces/default/resourceclaims/a?fieldManager=m1", config, APPLY)
    seen = http.put(f"{CLAIMS}/a?fieldManager=two", sized_claim("a", "1024Mi")).json
    assert all("f:requests" in owned["f:spec"]["f:devices"] for owned in owners(seen).values())


def test_an_apply_takes_respelled_lists_in_other_versions_too(http: Http) -> None:
    http.created(f"{CLAIMS}?fieldManager=one", sized_claim("a", "1.5"))
    path = f"{GROUP}/v1beta2/namespaces/default/resourceclaims/a?fieldManager=m1&force=true"
    seen = http.patch(path, sized_claim("a", "1.5", "v1beta2"), APPLY).json
    assert list(owners(seen)) == ["m1"]


def test_an_empty_list_is_none_in_another_version(http: Http) -> None:
    http.created(f"{SLICES}?fieldManager=one", resource_slice("a"))
    config = {**resource_slice("a", devices=[]), "apiVersion": "resource.k8s.io/v1beta2"}
    other = http.patch(f"{GROUP}/v1beta2/resourceslices/a?fieldManager=m1", config, APPLY)
    assert other.code == 200
    http.created(f"{SLICES}?fieldManager=one", resource_slice("b"))
    own = http.patch(f"{SLICES}/b?fieldManager=m1", resource_slice("b", devices=[]), APPLY)
    assert [cause["field"] for cause in own.json["details"]["causes"]] == [".spec.devices"]


def test_repeated_items_leave_ownership_of_other_versions_as_it_was(http: Http) -> None:
    body = rule("a")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    before = http.created(f"{GROUP}/v1/devicetaintrules?fieldManager=one", body)
    again = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/two"}]
    after = http.patch(f"{GROUP}/v1alpha3/devicetaintrules/a?fieldManager=two", again, JSON_PATCH).json
    assert after["metadata"]["finalizers"] == ["example.com/one", "example.com/two", "example.com/two"]
    assert owners(after) == owners(before)


def test_a_pod_whose_time_is_up_takes_another_policy(http: Http) -> None:
    http.created(PODS, pod("p", automountServiceAccountToken=False))
    first = http.delete(f"{PODS}/p?propagationPolicy=Orphan").json["metadata"]
    second = http.delete(f"{PODS}/p?propagationPolicy=Foreground").json["metadata"]
    assert [first["finalizers"], second["finalizers"]] == [["orphan"], ["foregroundDeletion"]]
    assert http.delete(f"{PODS}/p?propagationPolicy=Background").json["metadata"]["finalizers"] == [
        "foregroundDeletion"
    ]
    assert http.get(f"{PODS}/p").code == 404


def test_a_pod_with_time_left_takes_no_other_policy(http: Http) -> None:
    http.created(PODS, pod("p", automountServiceAccountToken=False, nodeName="n1"))
    http.delete(f"{PODS}/p?propagationPolicy=Orphan")
    second = http.delete(f"{PODS}/p?propagationPolicy=Foreground&gracePeriodSeconds=40").json["metadata"]
    assert (second["finalizers"], second["deletionGracePeriodSeconds"]) == (["orphan"], 30)
    third = http.delete(f"{PODS}/p?propagationPolicy=Foreground&gracePeriodSeconds=10").json["metadata"]
    assert (third["finalizers"], third["deletionGracePeriodSeconds"]) == (["foregroundDeletion"], 10)


def test_a_cascade_asked_for_in_the_old_way_is_accepted_until_it_is_done(http: Http) -> None:
    http.created(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/one"]}})
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "orphanDependents": False}
    assert [http.delete(f"{CONFIG_MAPS}/a", body).code, http.delete(f"{CONFIG_MAPS}/a").code] == [202, 200]


def test_a_dry_end_of_an_object_with_finalizers_has_nothing_to_show(http: Http) -> None:
    http.created(LEASES, {"metadata": {"name": "a"}, "spec": {"holderIdentity": "h"}})
    http.delete(f"{LEASES}/a?propagationPolicy=Orphan")
    answer = http.delete(f"{LEASES}/a?propagationPolicy=Background&dryRun=All").json
    assert answer == {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {}, "spec": {}}
    assert http.get(f"{LEASES}/a").code == 200


def test_one_object_by_name_is_read_at_any_revision(http: Http) -> None:
    old = http.created(CONFIG_MAPS, config_map("a", k="1"))["metadata"]["resourceVersion"]
    http.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}})
    queries = ("fieldSelector=metadata.name%3Da&limit=5", "limit=5")
    found = [http.get(f"{CONFIG_MAPS}?{query}&resourceVersion={old}").json for query in queries]
    assert [answer["items"][0]["data"]["k"] for answer in found] == ["2", "1"]


def test_an_error_of_a_partial_watch_is_json(http: Http) -> None:
    accept = f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    answer = http.get(f"{CONFIG_MAPS}?watch=1&labelSelector=a%3D%3D%3Db", Accept=accept)
    assert (answer.code, answer.headers["Content-Type"]) == (400, "application/json")


def test_a_dry_table_has_no_revision(http: Http) -> None:
    assert http.post(f"{CONFIG_MAPS}?dryRun=All", config_map("a"), Accept=TABLE).json["metadata"] == {}


def test_what_is_wrong_with_a_repeated_field_is_told_once(http: Http) -> None:
    body = '{"metadata":{"name":"a","odd":1},"metadata":{"name":"a","odd":1}}'
    assert http.post(f"{CONFIG_MAPS}?fieldValidation=Strict", body).json["message"] == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "metadata.odd", duplicate field "metadata"'
    )


def test_a_quoted_spec_is_safe_in_html(http: Http) -> None:
    spec = {"spec": claim("c")["spec"]}
    http.created(TEMPLATES, {"metadata": {"name": "a"}, "spec": spec})
    selectors = [{"cel": {"expression": "1 <= 2 && 2 >= 1"}}]
    spec["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = selectors
    message = http.put(f"{TEMPLATES}/a", {"metadata": {"name": "a"}, "spec": spec}).json["message"]
    assert '"Expression":"1 \\u003c= 2 \\u0026\\u0026 2 \\u003e= 1"' in message


def test_a_strict_strategic_patch_is_quoted_as_it_was_merged(http: Http) -> None:
    http.created(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"app": "x"}}})
    body = {"metadata": {"labels": {"app": None}, "annotations": {"app": None, "b": "c"}, "odd": 1}}
    answer = http.patch(f"{CONFIG_MAPS}/a?fieldValidation=Strict", body, STRATEGIC).json
    assert "map[metadata:map[annotations:map[b:c] labels:map[app:<nil>] odd:1]]" in answer["message"]


def test_an_apply_in_another_version_conflicts_over_another_spelling(http: Http) -> None:
    def whole(version: str) -> dict[str, Any]:
        body = sized_claim("a", "1024Mi", version)
        body["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = "All"
        return body

    http.created(f"{CLAIMS}?fieldManager=one", whole("v1"))
    path = f"{GROUP}/v1beta2/namespaces/default/resourceclaims/a?fieldManager=m1"
    answer = http.patch(path, whole("v1beta2"), APPLY)
    text = (
        'Apply failed with 1 conflict: conflict with "one" using resource.k8s.io/v1: .spec.devices.requests'
    )
    assert (answer.code, answer.json["message"]) == (409, text)


def test_repeated_items_stop_an_apply_over_other_versions(http: Http) -> None:
    body = rule("a")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    http.created(f"{GROUP}/v1/devicetaintrules?fieldManager=one", body)
    again = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/two"}]
    http.patch(f"{GROUP}/v1/devicetaintrules/a?fieldManager=one", again, JSON_PATCH)
    config = {**rule("a", "v1beta2"), "metadata": {"name": "a", "labels": {"app": "x"}}}
    answer = http.patch(f"{GROUP}/v1beta2/devicetaintrules/a?fieldManager=m1&force=true", config, APPLY)
    text = '.metadata.finalizers: duplicate entries for key [="example.com/two"]'
    assert (answer.code, answer.json["message"]) == (500, text)


def test_an_applied_empty_list_is_gone_when_the_last_apply_was_in_another_version(http: Http) -> None:
    empty = resource_slice("a", devices=[])
    first = {**empty, "apiVersion": "resource.k8s.io/v1beta2"}
    http.patch(f"{GROUP}/v1beta2/resourceslices/a?fieldManager=m1&force=true", first, APPLY)
    counters = [{"name": "c", "counters": {"n": {"value": "1"}}}]
    http.patch(f"{SLICES}/a?fieldManager=two", {"spec": {"sharedCounters": counters}})
    assert http.patch(f"{SLICES}/a?fieldManager=m1&force=true", empty, APPLY).code == 200


def test_a_policy_that_takes_the_last_finalizer_loses_the_revision_asked_for(http: Http) -> None:
    http.created(LEASES, {"metadata": {"name": "a"}, "spec": {}})
    revision = http.delete(f"{LEASES}/a?propagationPolicy=Orphan").json["metadata"]["resourceVersion"]
    body = {"propagationPolicy": "Background", "preconditions": {"resourceVersion": revision}}
    answer = http.delete(f"{LEASES}/a", body).json
    assert (answer["code"], answer["message"].partition("Msg: ")[2]) == (
        409,
        "Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: " + revision,
    )
