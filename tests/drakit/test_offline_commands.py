"""drakit allocate, devices, cel and lint as somebody calls them, and what they say to mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_kit import Cli
from hypothesis import given, settings
from worlds import worlds

from drakit.allocate import document
from drakit.cel import judge
from drakit.offline import inventory, sources
from drakit.offline.explaining import explain_claim
from drakit.offline.outlook import Outlook
from drakit.offline.settings import chosen_gates
from drakit.offline.world import World
from drakit.output import UserError

GATES = chosen_gates("")
DRIVER = "gpu.example.com"
SHARE = "8a36d9a4-0b7c-4d26-8d55-0a2b4f8d1c11"


def dra(kind: str, name: str, spec: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
        **more,
    }


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def slice_of(name: str, *devices: dict[str, Any]) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return dra(
        "ResourceSlice", name, {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(devices)}
    )


def claim(name: str, status: Any = None, **exactly: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **exactly}}]}}
    return dra("ResourceClaim", name, spec, **({"status": status} if status else {}))


def allocated(device: str, pool: str = "n1", pods: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more}
    consumers = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in pods]
    return {
        "allocation": {"devices": {"results": [result]}},
        **({"reservedFor": consumers} if consumers else {}),
    }


def pod(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    entries = [{"name": entry, "resourceClaimName": entry} for entry in claims]
    uses = {"claims": [{"name": entry} for entry in claims]}
    containers = [{"name": "main", "image": "i", "resources": uses}]
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": containers, "resourceClaims": entries, **spec}}  # fmt: skip


CLASS = dra("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]})


NOWHERE = """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: u}}]
users: [{name: u, user: {token: x}}]
"""


def outlook(*objects: dict[str, Any], gates: str = "") -> Outlook:
    return Outlook(World.of(objects), chosen_gates(gates))


def placed(found: Outlook) -> dict[str, tuple[str, list[str]]]:
    """Name of Pod or claim -> node, devices."""
    return {
        attempt.pod["metadata"]["name"]: (
            attempt.node,
            [
                result["device"]
                for allocation in attempt.allocations.values()
                for result in allocation["devices"]["results"]
            ],
        )
        for attempt in found.run()
    }


def test_pods_take_devices_from_those_behind_them_the_important_first() -> None:
    found = placed(
        outlook(
            node("n1"),
            CLASS,
            slice_of("n1", {"name": "a"}),
            claim("one"),
            claim("two"),
            pod("late", "one"),
            pod("first", "two", priority=5),
        )
    )
    assert found == {"first": ("n1", ["a"]), "late": ("", [])}


def test_pods_that_share_a_claim_go_to_its_node() -> None:
    world = [node("n1"), node("n2"), CLASS, slice_of("n2", {"name": "a"}), claim("c")]
    assert placed(outlook(*world, pod("p", "c"), pod("q", "c"))) == {"p": ("n2", ["a"]), "q": ("n2", [])}


def test_the_rest_of_the_scheduler_counts() -> None:
    tainted = node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])
    small = {**node("n2"), "status": {"allocatable": {"cpu": "1", "pods": "9"}}}
    devices = [slice_of(name, {"name": "a"}) for name in ("n1", "n2", "n3")]
    greedy = pod("p", "c")
    greedy["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    world = [tainted, small, node("n3"), CLASS, *devices, claim("c"), greedy]
    assert placed(outlook(*world)) == {"p": ("n3", ["a"])}
    [attempt] = outlook(*world[:2], *world[3:]).run()
    assert (
        attempt.message == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )


def test_the_node_with_the_better_alternative_is_chosen() -> None:
    choices = [
        {
            "name": word,
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{word}"'}}],
        }
        for word in ("new", "old")
    ]
    wanted = dra("ResourceClaim", "c", {"devices": {"requests": [{"name": "r", "firstAvailable": choices}]}})
    old, new = ({"name": word, "attributes": {"kind": {"string": word}}} for word in ("old", "new"))
    found = placed(outlook(node("n1"), node("n2"), CLASS, slice_of("n1", old), slice_of("n2", new), wanted))
    assert found == {"c": ("n2", ["new"])}


def test_the_document_has_what_was_allocated_before_and_what_is_now() -> None:
    found = outlook(
        node("n1"), CLASS, slice_of("n1", {"name": "a"}, {"name": "b"}), claim("old", allocated("a")), claim("new"),
        pod("p", "old", "new"),
    )  # fmt: skip
    [attempt] = document(found.run())["attempts"]
    assert (attempt["kind"], attempt["name"], attempt["node"]) == ("Pod", "p", "n1")
    assert [(entry["name"], entry["allocated"]) for entry in attempt["claims"]] == [
        ("old", "before"),
        ("new", "now"),
    ]


def test_older_api_versions_are_converted() -> None:
    flat = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}}  # fmt: skip
    assert placed(outlook(node("n1"), CLASS, slice_of("n1", {"name": "a"}), flat)) == {"c": ("n1", ["a"])}


def rows(*objects: dict[str, Any]) -> dict[str, inventory.Row]:
    return {row.id.device: row for row in inventory.rows(outlook(*objects))}


def test_devices_have_states_holders_and_pods() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    shared = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "10", "requestPolicy": {"default": "1"}}},
    }
    found = rows(
        node("n1"),
        slice_of("n1", {"name": "free"}, {"name": "taken"}, {"name": "tainted", "taints": [taint]},
                 {"name": "half", **shared}, {"name": "full", **shared}),
        claim("one", allocated("taken", pods=("p",))),
        claim("two", allocated("half", shareID=SHARE, consumedCapacity={"memory": "4"})),
        claim("three", allocated("full", shareID=SHARE, consumedCapacity={"memory": "10"})),
        claim("gone", allocated("gone")),
        claim("admin", allocated("taken", adminAccess=True)),
        pod("p", "one"),
    )  # fmt: skip
    assert {name: row.state for name, row in found.items()} == {
        "free": "free", "taken": "in use", "tainted": "tainted", "half": "shared", "full": "full", "gone": "gone",
    }  # fmt: skip
    assert (found["taken"].claims, found["taken"].admins) == (["default/one"], ["default/admin"])
    assert (found["taken"].pods, found["taken"].nodes) == (["default/p"], ["n1"])
    assert (found["half"].shares, str(found["half"].used["memory"])) == (1, "4")
    assert inventory.totals(found.values()) == {
        "devices": 6,
        "states": {"free": 1, "full": 1, "gone": 1, "in use": 1, "shared": 1, "tainted": 1},
        "whole": 2,
        "shares": 2,
    }


def test_devices_of_incomplete_pools_and_of_older_generations_are_told_apart() -> None:
    part, old, new = (slice_of(name, {"name": f"of-{name}"}) for name in ("n1", "n2", "n3"))
    part["spec"]["pool"]["resourceSliceCount"] = 2
    new["spec"]["pool"] |= {"name": "n2", "generation": 2}
    new["spec"]["nodeName"] = "n2"
    found = rows(node("n1"), node("n2"), part, old, new)
    assert {name: row.state for name, row in found.items()} == {"of-n1": "pool incomplete", "of-n3": "free"}


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_totals_are_those_of_the_allocator(world: World) -> None:
    found = Outlook(world, GATES)
    everything = inventory.rows(found)
    counts = inventory.totals(everything)
    assert (counts["whole"], counts["shares"]) == inventory.in_use(found.state)
    assert {row.id: row.used for row in everything if row.used} == found.state.capacity
    assert {row.id for row in everything if row.whole} == found.state.devices


def test_cel_tells_match_error_and_cost_of_each_device() -> None:
    expression = f'device.attributes["{DRIVER}"].memory > 40'
    slices = World.of(
        [slice_of("n1", {"name": "a", "attributes": {"memory": {"int": 80}}}, {"name": "b"})]
    ).slices
    gates = frozenset(name for name, on in GATES.items() if on)
    found = judge(expression, slices, "", "new", gates)
    assert (found["usable"], found["type"], found["estimatedCost"]) == (True, "bool", 5)
    assert found["devices"][0] == {"device": f"{DRIVER}/n1/a", "match": True, "actualCost": 5}
    assert found["devices"][1]["matchError"].startswith("no such key: memory")
    assert judge("1", slices, "", "new", gates)["usable"] is False
    assert "too long: 10241 bytes" in judge(" " * 10237 + "true", slices, "", "new", gates)["problem"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "this is no YAML"),
        ("kind: Pod\n", "apiVersion: required"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containrs: []}\n",
            'did you mean "containers"?',
        ),
        ("apiVersion: v1\nkind: Pod\n", "metadata.name: required"),
    ],
)
def test_manifests_that_cannot_be_read_are_a_mistake_of_the_user(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(UserError, match=r"x\.yaml") as caught:
        sources.world([str(tmp_path / "x.yaml")])
    assert words in caught.value.message


def test_lists_as_api_servers_answer_them_are_read(tmp_path: Path) -> None:
    bare = {key: value for key, value in slice_of("n1", {"name": "a"}).items() if key in ("metadata", "spec")}
    listed = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSliceList",
        "metadata": {},
        "items": [bare],
    }
    (tmp_path / "x.json").write_text(json.dumps(listed))
    [found] = sources.world([str(tmp_path / "x.json")]).slices
    assert found["spec"]["devices"] == [{"name": "a"}]
    (tmp_path / "x.json").write_text(json.dumps({**listed, "items": [{**bare, "spec": {"driver": 3}}]}))
    with pytest.raises(UserError, match=r"items\[0\]\.spec\.driver: must be a string"):
        sources.world([str(tmp_path / "x.json")])


def test_other_kinds_are_passed_over_and_those_that_make_pods_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    custom = {"apiVersion": "gpu.example.com/v1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": 3}
    maker = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump_all([custom, maker, node("n1")]))
    found = sources.view([str(tmp_path / "x.yaml")], None, "", "")
    assert [entry["metadata"]["name"] for entry in found.world.nodes] == ["n1"]
    assert capsys.readouterr().err == (
        "drakit: passed over: 1 Deployment: only Pods count here; give those that they make\n"
    )


def test_a_name_with_a_line_feed_does_not_break_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(node("a\nb")))
    with pytest.raises(UserError, match=r"Node a b: metadata\.name: Invalid value"):
        sources.world([str(tmp_path / "x.yaml")])


def test_in_its_turn_a_claim_has_what_is_left() -> None:
    world = [
        node("n1"),
        CLASS,
        slice_of("n1", {"name": "a"}, {"name": "b"}),
        claim("c", count=2),
        claim("used"),
    ]
    world.append(pod("p-1", "used"))
    found = outlook(*world)
    assert explain_claim(found, found.all_claims["default", "c"])["state"] == "possible"
    found.place_before("ResourceClaim", "default", "c")
    explained = explain_claim(found, found.all_claims["default", "c"])
    [device] = [one for one in explained["nodes"][0]["requests"][0]["devices"] if one["outcome"] != "free"]
    assert (explained["state"], device["detail"]) == ("impossible", "by claim default/used")

    for kind, name in (("Pod", "p-1"), ("ResourceClaim", "used")):
        found = outlook(*world)
        found.place_before(kind, "default", name)
        assert not found.state.devices, f"{kind} {name} has the first turn"


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["allocate"], "nothing to look at: give manifests with -f FILE, or a cluster with --kubeconfig FILE"),
        (["allocate", "-f", "absent.yaml"], "absent.yaml: cannot be read: No such file or directory"),
        (["devices", "-f", "world.yaml", "--driver", "x"], "--driver: no device is of x; there are gpu.example.com"),
        (["allocate", "-f", "empty.yaml"], "empty.yaml: there are no manifests in it: write objects such as"),
        (["lint", "empty.yaml"], "empty.yaml: there are no manifests in it: write objects such as"),
        (["allocate", "--kubeconfig", "deep.json"], "--kubeconfig deep.json: not valid YAML: nested too deeply"),
        (["allocate", "--kubeconfig", "nowhere.yaml"], "https://127.0.0.1:1 (context a) cannot be reached: "),
        (["allocate", "-f", "world.yaml", "--timeout", "3"], "--timeout is for --jsonl"),
        (["devices", "-f", "world.yaml", "--node", "n2"], "--node: there is no node n2; there are n1"),
        (["explain", "pod", "q", "-f", "world.yaml"], "there is no Pod q in namespace default; there are p-1"),
        (["explain", "claim", "c", "-f", "world.yaml", "-n", "x"],
         "there is no ResourceClaim c in namespace x; try --namespace default"),
        (["explain", "claim", "c", "-f", "world.yaml", "--node", "n2"], "--node: there is no node n2; there are n1"),
        (["allocate", "-f", "world.yaml", "--context", "x"],
         "--context names a context of a kubeconfig: give --kubeconfig as well"),
        (["allocate", "-f", "world.yaml", "--feature-gates", "DRAX=true"],
         "--feature-gates: unrecognized feature gate: DRAX"),
        (["cel"], "which expression? for example: drakit cel 'device.driver == \"gpu.example.com\"' -f slices.yaml"),
        (["lint"], "which files? for example: drakit lint claim.yaml; --list shows the rules"),
        (["allocate", "--kubeconfig", "absent"], "absent: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(cli: Cli, words: list[str], line: str) -> None:
    world = [node("n1"), CLASS, slice_of("n1", {"name": "a"}), claim("c"), pod("p-1")]
    (cli.folder / "world.yaml").write_text(yaml.safe_dump_all(world))
    (cli.folder / "empty.yaml").write_text("---\n# nothing\n---\n")
    (cli.folder / "deep.json").write_text("[" * 5000)
    (cli.folder / "nowhere.yaml").write_text(NOWHERE)
    done = cli(*words)
    assert done.code == 2, done.out
    [said] = done.lines()
    assert line in said


@pytest.mark.process
def test_exit_codes_and_json_of_the_commands(cli: Cli) -> None:
    world = [node("n1"), CLASS, slice_of("n1", {"name": "a"}), claim("c"), claim("d", count=2)]
    (cli.folder / "world.yaml").write_text(yaml.safe_dump_all(world))
    done = cli("allocate", "-f", "world.yaml", "--json")
    assert (done.code, [entry["node"] for entry in json.loads(done.out)["attempts"]]) == (1, ["n1", None])
    done = cli("explain", "claim", "c", "-f", "world.yaml", "--json")
    assert (done.code, json.loads(done.out)["state"]) == (0, "possible")
    assert cli("explain", "claim", "d", "-f", "world.yaml").code == 1
    done = cli("devices", "-f", "world.yaml", "--json")
    assert (done.code, json.loads(done.out)["totals"]["states"]) == (0, {"free": 1})
    done = cli("cel", "true", "-f", "world.yaml", "--json")
    assert (done.code, json.loads(done.out)["devices"][0]["match"]) == (0, True)
    assert cli("cel", "device.x").code == 1
    done = cli("lint", "world.yaml", "--json")
    assert (done.code, json.loads(done.out)["findings"]) == (0, [])
    (cli.folder / "bad.yaml").write_text("apiVersion: v1\nkind: Node\n")
    assert cli("lint", "bad.yaml").code == 1
    assert cli("lint", "--list").out.startswith("syntax ")
