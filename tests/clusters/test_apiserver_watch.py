"""Watch streams over HTTP (api-machinery section 11)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apiserver_harness import (
    CONFIG_MAPS,
    SLICES,
    TABLE,
    Http,
    config_map,
    resource_slice,
    serve,
)

from clusters.embedded.apiserver.thread import ServerThread

WATCH_LIST = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
END = "k8s.io/initial-events-end"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    server = serve(bookmark_interval=0.2, watch_queue=50)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def http(server: ServerThread) -> Iterator[Http]:
    client = Http(server)
    yield client
    client.close()


@pytest.fixture
def maps(http: Http, request: pytest.FixtureRequest) -> str:
    """The ConfigMaps of a namespace of the test's own."""
    name = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[:60].strip("-")
    http.created("/api/v1/namespaces", {"metadata": {"name": name}})
    return f"/api/v1/namespaces/{name}/configmaps"


def revision(http: Http, path: str) -> str:
    return str(http.get(path).json["metadata"]["resourceVersion"])


def test_present_objects_then_changes(http: Http, maps: str) -> None:
    http.created(maps, config_map("b"))
    http.created(maps, config_map("a"))
    with http.stream(f"{maps}?watch=true") as stream:
        assert stream.headers["Content-Type"] == "application/json"
        assert stream.names(2) == [("ADDED", "a"), ("ADDED", "b")]
        changed = http.patch(f"{maps}/a", {"data": {"x": "y"}}).json
        assert stream.next() == {"type": "MODIFIED", "object": changed}
        http.delete(f"{maps}/b")
        gone = stream.next()
        assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "b")
        assert int(gone["object"]["metadata"]["resourceVersion"]) > int(
            changed["metadata"]["resourceVersion"]
        )


def test_changes_after_a_revision(http: Http, maps: str) -> None:
    http.created(maps, config_map("old"))
    since = revision(http, maps)
    http.created(maps, config_map("new"))
    http.delete(f"{maps}/old")
    with http.stream(f"{maps}?watch=1&resourceVersion={since}") as stream:
        assert stream.names(2) == [("ADDED", "new"), ("DELETED", "old")]


def test_selectors_turn_changes_into_arrivals_and_departures(http: Http, maps: str) -> None:
    since = revision(http, maps)
    with http.stream(f"{maps}?watch=1&resourceVersion={since}&labelSelector=a%3Db") as stream:
        http.created(maps, config_map("never"))
        http.created(maps, config_map("x"))
        http.patch(f"{maps}/x", {"metadata": {"labels": {"a": "b"}}})
        http.patch(f"{maps}/x", {"data": {"k": "v"}})
        left = http.patch(f"{maps}/x", {"metadata": {"labels": {"a": "c"}}}).json
        http.patch(f"{maps}/x", {"data": {"k": "w"}})
        assert stream.names(2) == [("ADDED", "x"), ("MODIFIED", "x")]
        gone = stream.next()
        assert gone["type"] == "DELETED"
        assert gone["object"]["metadata"]["labels"] == {"a": "b"}, "the content is the one that matched last"
        assert gone["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


def test_field_selectors(http: Http) -> None:
    http.created(SLICES, resource_slice("mine", nodeName="w1"))
    http.created(SLICES, resource_slice("other", nodeName="w2"))
    with http.stream(
        f"{SLICES}?watch=1&fieldSelector=spec.nodeName%3Dw1,spec.driver%3Dgpu.example.com"
    ) as stream:
        assert stream.names(1) == [("ADDED", "mine")]
        http.created(SLICES, resource_slice("third", nodeName="w1"))
        assert stream.names(1) == [("ADDED", "third")]
    assert http.get(f"{SLICES}?watch=1&fieldSelector=spec.allNodes%3Dtrue").json["message"] == (
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.allNodes"
    )


def test_watch_list_ends_its_initial_events_with_a_bookmark(http: Http, maps: str) -> None:
    http.created(maps, config_map("a"))
    with http.stream(f"{maps}?{WATCH_LIST}") as stream:
        assert stream.names(1) == [("ADDED", "a")]
        mark = stream.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["kind"] == "ConfigMap"
        assert mark["object"]["metadata"]["annotations"] == {END: "true"}
        assert mark["object"]["metadata"]["resourceVersion"] == revision(http, maps)
        http.created(maps, config_map("b"))
        assert stream.names(1) == [("ADDED", "b")]


def test_watch_list_of_nothing_marks_its_end_at_once(http: Http, maps: str) -> None:
    with http.stream(f"{maps}?{WATCH_LIST}") as stream:
        assert stream.next()["object"]["metadata"]["annotations"] == {END: "true"}


def test_watch_without_initial_events_starts_now(http: Http, maps: str) -> None:
    http.created(maps, config_map("a"))
    query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    with http.stream(f"{maps}?{query}") as stream:
        http.created(maps, config_map("b"))
        assert stream.names(1) == [("ADDED", "b")]


def test_bookmarks_follow_the_writes_of_other_kinds(http: Http, maps: str) -> None:
    with http.stream(f"{maps}?watch=1&allowWatchBookmarks=true") as stream:
        end = stream.next()
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        http.created("/api/v1/nodes", {"metadata": {"name": "moves-the-revision"}})
        mark = stream.next()
        assert mark["type"] == "BOOKMARK"
        assert int(mark["object"]["metadata"]["resourceVersion"]) > 1
        assert "annotations" not in mark["object"]["metadata"]


def test_bad_options(http: Http, maps: str) -> None:
    initial = http.get(f"{maps}?watch=1&sendInitialEvents=true").json
    assert initial["message"] == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting '
        "resourceVersionMatch to NotOlderThan"
    )
    match = http.get(f"{maps}?watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1").json
    assert (
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided" in match["message"]
    )
    assert http.get(f"{maps}?watch=1&resourceVersion=x").code == 500


def test_timeout_ends_the_stream_cleanly(http: Http, maps: str) -> None:
    answer = http.get(f"{maps}?watch=1&timeoutSeconds=1")
    assert (answer.code, answer.body) == (200, b"")


def test_compacted_revision_is_one_error_event(server: ServerThread, http: Http, maps: str) -> None:
    http.created(maps, config_map("a"))
    since = int(revision(http, maps))
    http.created(maps, config_map("b"))
    server.call(server.state.store.compact)
    answer = http.get(f"{maps}?watch=1&resourceVersion={since}")
    assert answer.code == 200
    oldest = since + 1
    assert answer.json == {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"too old resource version: {since} ({oldest})",
            "reason": "Expired",
            "code": 410,
        },
    }
    listed = http.get(f"{maps}?resourceVersion={since}&resourceVersionMatch=Exact")
    assert (listed.code, listed.json["reason"]) == (410, "Expired")


def test_future_revision_is_an_open_silent_stream(http: Http, maps: str) -> None:
    answer = http.get(f"{maps}?watch=1&resourceVersion=99999999&timeoutSeconds=1")
    assert (answer.code, answer.body) == (200, b"")


def test_table_watch_names_its_columns_once(http: Http, maps: str) -> None:
    http.created(maps, config_map("a", x="y"))
    with http.stream(f"{maps}?watch=1", Accept=TABLE) as stream:
        first = stream.next()["object"]
        assert first["kind"] == "Table"
        assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert first["rows"][0]["cells"][:2] == ["a", 1]
        http.created(maps, config_map("b"))
        second = stream.next()["object"]
        assert second["columnDefinitions"] is None
        assert second["rows"][0]["object"]["metadata"]["name"] == "b"


def test_partial_metadata_watch(http: Http, maps: str) -> None:
    http.created(maps, config_map("a", x="y"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    with http.stream(f"{maps}?watch=1", Accept=accept) as stream:
        obj = stream.next()["object"]
    assert (obj["kind"], obj["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "data" not in obj


def test_old_watch_paths(http: Http, maps: str) -> None:
    http.created(maps, config_map("a"))
    http.created(maps, config_map("b"))
    base = maps.replace("/api/v1/", "/api/v1/watch/")
    with http.stream(base) as stream:
        assert stream.names(2) == [("ADDED", "a"), ("ADDED", "b")]
    with http.stream(f"{base}/b") as stream:
        assert stream.names(1) == [("ADDED", "b")]


def test_get_of_one_object_is_no_watch(http: Http, maps: str) -> None:
    stored = http.created(maps, config_map("a"))
    assert http.get(f"{maps}/a?watch=true").json == stored


def test_many_watchers_see_every_change_in_order(http: Http, maps: str) -> None:
    streams = [http.stream(f"{maps}?watch=1") for _ in range(20)]
    opened = [stream.__enter__() for stream in streams]
    try:
        for number in range(10):
            http.created(maps, config_map(f"m{number}"))
        expected = [("ADDED", f"m{number}") for number in range(10)]
        assert all(stream.names(10) == expected for stream in opened)
    finally:
        for stream in streams:
            stream.__exit__(None, None, None)


def test_all_namespaces(http: Http, maps: str) -> None:
    http.created(maps, config_map("everywhere"))
    with http.stream("/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Deverywhere") as stream:
        assert stream.names(1) == [("ADDED", "everywhere")]
    assert http.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Deverywhere").json["items"] == []
