"""Selectors, negotiation, tables and storage of the API server by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.api_status import ApiError
from clusters.embedded.apiserver import negotiation, pod_cells, selectors, tables
from clusters.embedded.apiserver.negotiation import JSON, LIST, OBJECT, PROTOBUF, YAML, Negotiated, negotiate
from clusters.embedded.apiserver.storage import ExistsError, ExpiredError, ResourceKey, Store

KEY = ResourceKey("", "things")
TABLE_TYPE = "application/json;as=Table;v=v1;g=meta.k8s.io"


# Selectors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_label_selector_errors(text: str, message: str) -> None:
    with pytest.raises(ApiError) as error:
        selectors.parse_labels(text)
    assert (error.value.code, error.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a in ()", {"a": ""}, True),
        ("a in (x,)", {"a": ""}, True),
        ("in in (in)", {"in": "in"}, True),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a>1", {"a": "x"}, False),
        ("a, !b", {"a": "1"}, True),
        ("a.b/c=d", {"a.b/c": "d"}, True),
        ("", {}, True),
    ],
)
def test_label_selector_matches(text: str, labels: dict[str, str], matches: bool) -> None:
    assert selectors.parse_labels(text).matches(labels) is matches


@given(st.text(alphabet="ab=!(), inot<>1/.", max_size=20))
def test_label_selectors_parse_or_refuse(text: str) -> None:
    try:
        selectors.parse_labels(text).matches({"a": "b"})
    except ApiError as error:
        assert error.code == 400


# Negotiation


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, Negotiated(JSON)),
        ("", Negotiated(JSON)),
        ("*/*", Negotiated(JSON)),
        ("application/yaml", Negotiated(YAML)),
        (f"{PROTOBUF},application/json", Negotiated(PROTOBUF)),
        ("application/cbor, application/json;q=0.9", Negotiated(JSON)),
        ("application/json;q=0.1, application/yaml;q=0.5", Negotiated(YAML)),
        ("application/json;charset=utf-8;pretty=1", Negotiated(JSON)),
        (TABLE_TYPE, Negotiated(JSON, "Table")),
        (TABLE_TYPE.replace("v1;", "v1beta1;"), Negotiated(JSON, "Table", "v1beta1")),
        ("application/json;as=Other;v=v1;g=meta.k8s.io,application/json", Negotiated(JSON)),
    ],
)
def test_negotiation(accept: str | None, expected: Negotiated) -> None:
    assert negotiate(accept, OBJECT) == expected


@pytest.mark.parametrize("accept", ["application/*", "text/html", f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"])
def test_nothing_acceptable(accept: str) -> None:
    with pytest.raises(ApiError) as error:
        negotiate(accept, LIST)
    assert error.value.code == 406


def test_body_types() -> None:
    assert negotiation.body_type(None) == JSON
    assert negotiation.body_type("Application/JSON; charset=utf-8") == JSON
    with pytest.raises(ApiError, match="unknown format"):
        negotiation.body_type("*/*")


# Tables


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (2 * 86400 + 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert tables.human_duration(seconds) == text


def container(name: str = "a", ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def cells(
    spec: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **status: Any
) -> list[Any]:
    pod = {
        "metadata": {"name": "p", "creationTimestamp": "2027-01-15T08:00:00Z", **(metadata or {})},
        "spec": {"containers": [{"name": "a"}], **(spec or {})},
        "status": {"phase": "Pending", **status},
    }
    # 2027-01-15T08:01:00Z is 1800000060.
    return pod_cells.cells(pod, 1_800_000_060.0, tables.human_duration)


def test_pod_cells_of_a_pending_pod() -> None:
    assert cells() == ["p", "0/1", "Pending", "0", "60s", "<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"phase": "Running", "containerStatuses": [container(ready=True, running={})]},
            ["1/1", "Running", "0"],
        ),
        (
            {"containerStatuses": [container(waiting={"reason": "ImagePullBackOff"})]},
            ["0/1", "ImagePullBackOff", "0"],
        ),
        (
            {"containerStatuses": [container(restarts=3, terminated={"exitCode": 2})]},
            ["0/1", "ExitCode:2", "3"],
        ),
        ({"containerStatuses": [container(terminated={"signal": 9})]}, ["0/1", "Signal:9", "0"]),
        (
            {"phase": "Succeeded", "containerStatuses": [container(terminated={"reason": "Completed"})]},
            ["0/1", "Completed", "0"],
        ),
        (
            {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ["0/1", "SchedulingGated", "0"],
        ),
        ({"reason": "Evicted", "phase": "Failed"}, ["0/1", "Evicted", "0"]),
    ],
)
def test_pod_status_cells(status: dict[str, Any], expected: list[str]) -> None:
    assert cells(**status)[1:4] == expected


def test_pod_cells_of_initialisation() -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]}
    waiting = cells(spec, initContainerStatuses=[container("i", waiting={"reason": "PodInitializing"})])
    # One container and one sidecar count.
    assert waiting[1:3] == ["0/2", "Init:0/2"]
    failed = cells(spec, initContainerStatuses=[container("i", restarts=2, terminated={"exitCode": 1})])
    assert failed[2:4] == ["Init:ExitCode:1", "2"]
    done = container("i", terminated={"exitCode": 0})
    sidecar = {**container("s", ready=True, running={}), "started": True}
    running = cells(
        spec,
        phase="Running",
        initContainerStatuses=[done, sidecar],
        containerStatuses=[container(ready=True, running={})],
    )
    assert running[1:3] == ["2/2", "Running"]


def test_pod_cells_of_restarts_and_deletion() -> None:
    last = {"terminated": {"finishedAt": "2027-01-15T08:00:30Z"}}
    restarted = {**container(ready=True, restarts=2, running={}), "lastState": last}
    assert cells(phase="Running", containerStatuses=[restarted])[3] == "2 (30s ago)"
    deleted = {"deletionTimestamp": "2027-01-15T08:00:30Z"}
    assert cells(metadata=deleted, phase="Running")[2] == "Terminating"
    assert cells(metadata=deleted, phase="Running", reason="NodeLost")[2] == "Unknown"
    assert cells(metadata=deleted, phase="Succeeded")[2] == "Succeeded"


def test_claim_states() -> None:
    def state(status: dict[str, Any], **metadata: Any) -> str:
        obj = {"metadata": {"name": "c", **metadata}, "status": status}
        from clusters.embedded.apiserver.resource_table import TABLE

        resource = next(r for r in TABLE if r.kind == "ResourceClaim")
        return str(tables.of(resource).cells(obj, 0.0)[1])

    allocated = {"allocation": {"devices": {}}}
    reserved = {**allocated, "reservedFor": [{"name": "p"}]}
    assert state({}) == "pending"
    assert state(allocated) == "allocated"
    assert state(reserved) == "allocated,reserved"
    assert state(reserved, deletionTimestamp="x") == "deleted,allocated,reserved"
    assert state({}, deletionTimestamp="x") == "deleted"


# Storage


def thing(name: str, namespace: str = "", **labels: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": metadata}


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_every_write_has_the_next_revision() -> None:
    store = Store()
    first = store.create(KEY, thing("a"))
    second = store.update(KEY, thing("a", x="y"))
    gone = store.delete(KEY, "", "a")
    revisions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, gone)]
    assert revisions == [2, 3, 4]
    assert store.revision == 4
    assert gone["metadata"]["labels"] == {"x": "y"}
    with pytest.raises(KeyError):
        store.update(KEY, thing("a"))


def test_names_are_unique_within_a_namespace() -> None:
    store = Store()
    store.create(KEY, thing("a", "n1"))
    store.create(KEY, thing("a", "n2"))
    with pytest.raises(ExistsError):
        store.create(KEY, thing("a", "n1"))
    assert len(store.list(*KEY)) == 2
    assert len(store.list(*KEY, "n1")) == 1


def test_the_past_can_be_listed_until_it_is_forgotten() -> None:
    store = Store(history=3)
    for name in ("a", "b", "c"):
        store.create(KEY, thing(name))  # revisions 2, 3, 4
    store.delete(KEY, "", "a")  # 5: the window now holds 3, 4, 5
    assert names(store.list_at(KEY, 4)) == ["a", "b", "c"]
    assert names(store.list_at(KEY, 3)) == ["a", "b"]
    assert names(store.list_at(KEY, 2)) == ["a"]
    with pytest.raises(ExpiredError):
        store.list_at(KEY, 1)
    store.compact()
    with pytest.raises(ExpiredError):
        store.list_at(KEY, 4)
    assert names(store.list_at(KEY, 5)) == ["b", "c"]


def test_watchers_see_what_they_select_in_order() -> None:
    async def run() -> None:
        store = Store()
        store.create(KEY, thing("before", "n1"))
        watcher = store.watch(
            KEY, store.revision, "n1", lambda obj: obj["metadata"]["labels"].get("x") == "y"
        )
        store.create(KEY, thing("a", "n1"))
        store.create(KEY, thing("b", "n2", x="y"))
        store.update(KEY, thing("a", "n1", x="y"))
        store.update(KEY, thing("a", "n1"))
        store.delete(KEY, "n1", "a")
        notices = await watcher.take(1.0)
        assert [(n.type, n.object["metadata"]["resourceVersion"]) for n in notices] == [
            ("ADDED", "5"),
            ("DELETED", "6"),
        ]
        store.unwatch(KEY, watcher)
        store.create(KEY, thing("late", "n1", x="y"))
        assert await watcher.take(0.01) == []

    asyncio.run(run())


def test_watchers_start_in_the_past_or_the_future() -> None:
    async def run() -> None:
        store = Store()
        store.create(KEY, thing("a"))  # 2
        store.create(KEY, thing("b"))  # 3
        past = store.watch(KEY, 2)
        future = store.watch(KEY, 4)
        store.create(KEY, thing("c"))  # 4
        store.create(KEY, thing("d"))  # 5
        assert [n.object["metadata"]["name"] for n in await past.take(1.0)] == ["b", "c", "d"]
        assert [n.object["metadata"]["name"] for n in await future.take(1.0)] == ["d"]

    asyncio.run(run())


def test_slow_watchers_are_closed() -> None:
    async def run() -> None:
        store = Store(queue_limit=2)
        watcher = store.watch(KEY, None)
        told: list[bool] = []
        watcher.on_overflow = lambda: told.append(True)
        for name in "abc":
            store.create(KEY, thing(name))
        assert watcher.closed
        assert told == [True]
        assert len(await watcher.take(0)) == 2

    asyncio.run(run())


def test_waiting_for_a_revision() -> None:
    async def run() -> None:
        store = Store()
        waiting = asyncio.create_task(store.reached(3, 5.0))
        await asyncio.sleep(0)
        store.create(KEY, thing("a"))
        store.create(KEY, thing("b"))
        assert await waiting
        assert not await store.reached(99, 0.01)

    asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30), st.data())
def test_a_past_list_is_what_was_listed_then(steps: list[tuple[str, bool]], data: st.DataObject) -> None:
    store = Store()
    seen = {store.revision: names(store.list(*KEY))}
    for name, present in steps:
        exists = store.get(*KEY, "", name) is not None
        if present and exists:
            store.update(KEY, thing(name))
        elif present:
            store.create(KEY, thing(name))
        elif exists:
            store.delete(KEY, "", name)
        seen[store.revision] = names(store.list(*KEY))
    revision = data.draw(st.sampled_from(sorted(seen)))
    assert names(store.list_at(KEY, revision)) == seen[revision]
