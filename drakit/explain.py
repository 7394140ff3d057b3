"""`drakit explain`: why a Pod or claim gets its devices, or none."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from conformance.report.layout import clean
from drakit.offline import sources
from drakit.offline.explaining import Document, explain_claim, explain_pod
from drakit.offline.outlook import Outlook
from drakit.offline.settings import gate_option, json_option
from drakit.offline.world import Object
from drakit.output import UserError, counted, write_out

_KINDS: Final = ("claim", "pod")
_DETAILED: Final = 20
_NAMED: Final = 4


@click.command("explain")
@click.argument("kind", type=click.Choice(_KINDS), metavar="claim|pod")
@click.argument("name")
@sources.options
@click.option(
    "-n", "--namespace", metavar="NAME", default="default", show_default=True, help="Namespace of it."
)
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Only this node. May be repeated.")
@click.option(
    "--in-turn",
    is_flag=True,
    help="Let the Pods and claims that wait before it take their devices first, as drakit allocate does.",
)
@gate_option
@json_option
def command(
    kind: str,
    name: str,
    files: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str,
    namespace: str,
    nodes: tuple[str, ...],
    in_turn: bool,
    feature_gates: str,
    as_json: bool,
) -> int:
    """Tell why a claim or Pod gets its devices, or none, as the scheduler of Kubernetes 1.37 sees it.

    \b
    drakit explain pod train-0 -f cluster.yaml
    drakit explain claim gpus --kubeconfig ~/.kube/config --namespace team-a

    For each node and request: how many devices the node sees, how many match the selectors, what became of each
    (docs/explain.md lists the outcomes), and the first thing that blocks. What other Pods that wait would take counts
    with --in-turn only.

    \b
    Exit codes: 0 it has its devices or can get them, 1 it cannot, 2 wrong usage or input.
    """
    seen = sources.view(files, kubeconfig_file, context, feature_gates)
    outlook = Outlook(seen.world, seen.gates)
    known = [node["metadata"]["name"] for node in outlook.nodes]
    for node in nodes:
        if node not in known:
            raise UserError(f"--node: there is no node {node}{_hint(node, known)}")
    if in_turn:
        outlook.place_before("Pod" if kind == "pod" else "ResourceClaim", namespace, name)
    if kind == "pod":
        document = explain_pod(outlook, _find("Pod", outlook.pods(), namespace, name), nodes)
    else:
        claims = list(outlook.all_claims.values())
        document = explain_claim(outlook, _find("ResourceClaim", claims, namespace, name), nodes)
    write_out(json.dumps(document, indent=2) + "\n" if as_json else text(document))
    return int(document["state"] == "impossible")


def _find(kind: str, objects: Sequence[Object], namespace: str, name: str) -> Object:
    for obj in objects:
        if (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name):
            return obj
    elsewhere = [obj["metadata"]["namespace"] for obj in objects if obj["metadata"]["name"] == name]
    if elsewhere:
        raise UserError(f"there is no {kind} {name} in namespace {namespace}; try --namespace {elsewhere[0]}")
    near = [obj["metadata"]["name"] for obj in objects if obj["metadata"]["namespace"] == namespace]
    raise UserError(f"there is no {kind} {name} in namespace {namespace}{_hint(name, near)}")


def _hint(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    if near:
        return f", did you mean {near[0]}?"
    return f"; there are {', '.join(known[:10])}" if known else "; there is none"


def text(document: Document) -> str:
    """What is printed without --json."""
    lines = [*_head(document), *_claims(document), *_nodes(document)]
    return "".join(f"{clean(line)}\n" for line in lines)


def _head(document: Document) -> Iterable[str]:
    word = "pod" if document["kind"] == "Pod" else "claim"
    subject = f"{word} {document['namespace']}/{document['name']}"
    state = document["state"]
    if state == "possible":
        able = sum(node["possible"] for node in document["nodes"])
        yield f"{subject}: possible; node {document['node']}" + (f" of {able} that fit" if able > 1 else "")
    elif state == "impossible":
        yield f"{subject}: not possible: {document['message']}"
    elif state == "scheduled":
        yield f"{subject}: runs on node {document['node']}"
    else:
        yield f"{subject}: {state}"
    if used := document.get("usedBy"):
        yield f"  used by pod {', '.join(used)}, whose other needs count too: drakit explain pod {used[0]}"


def _claims(document: Document) -> Iterable[str]:
    for claim in document["claims"]:
        yield f"claim {claim['name']}: {claim['state']}"
        for result in claim["devices"]:
            extra = "".join(
                f", {name} {amount}" for name, amount in (result.get("consumedCapacity") or {}).items()
            )
            admin = ", with admin access" if result.get("adminAccess") else ""
            yield f"  request {result['request']}: {result['device']}{extra}{admin}"
        if claim["usableOn"]:
            yield f"  usable on {claim['usableOn']}"
        if claim["reservedFor"]:
            yield f"  reserved for {', '.join(claim['reservedFor'])}"


def _nodes(document: Document) -> Iterable[str]:
    nodes = document["nodes"]
    for node in nodes[:_DETAILED]:
        yield ""
        yield from _node(node)
    for node in nodes[_DETAILED:]:
        yield f"node {node['node']}: {_verdict(node)}"
    if len(nodes) > _DETAILED:
        yield f"(details of a node: --node {nodes[_DETAILED]['node']})"


def _verdict(node: Document) -> str:
    if node["possible"]:
        return "possible" + (", chosen" if node["chosen"] else "")
    if node["refusedBy"]:
        return f"not possible, for {node['refusedBy']['plugin']}"
    return f"not possible, for {node['blocking']['reason']}"


def _node(node: Document) -> Iterable[str]:
    yield f"node {node['node']}: {_verdict(node)}"
    if node["refusedBy"]:
        yield f"  node selection: {node['refusedBy']['text']} ({node['refusedBy']['plugin']})"
    given: dict[tuple[str, str], list[str]] = {
        (claim, result["request"]): []
        for claim, found in node["allocations"].items()
        for result in _results(found)
    }
    for claim, found in node["allocations"].items():
        for result in _results(found):
            given[claim, result["request"]].append(_taken(result))
    for request in node["requests"]:
        key = request["claim"].rpartition("/")[2], request["request"]
        yield from _request(request, given.get(key), "gets" if node["chosen"] else "would get")
    for pool in node["pools"]:
        yield f"  pool {pool['pool']} is {pool['state']}: {pool['detail']}"
    blocking = node["blocking"]
    if blocking:
        # Errors of the allocator say themselves what they are about.
        place = ", ".join(
            f"{word} {value}"
            for word, value in (("claim", blocking["claim"]), ("request", blocking["request"]))
            if value and blocking["reason"] != "error"
        )
        yield f"  blocks first: {place + ': ' if place else ''}{blocking['reason']}: {blocking['text']}"


def _results(allocation: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (allocation.get("devices") or {}).get("results") or ()


def _taken(result: Mapping[str, Any]) -> str:
    amounts = ", ".join(f"{name} {amount}" for name, amount in (result.get("consumedCapacity") or {}).items())
    device = f"{result['driver']}/{result['pool']}/{result['device']}"
    return f"{device} ({amounts})" if amounts else device


def _request(request: Document, given: Sequence[str] | None, verb: str) -> Iterable[str]:
    wanted = "all" if request["wanted"] is None else str(request["wanted"])
    yield (
        f"  claim {request['claim']}, request {request['request']} (class {request['deviceClass']}): wants {wanted};"
        f" {counted(request['seen'], 'device')}, {request['candidates']} match, {request['free']} free"
    )
    if given:
        yield f"    {verb} {', '.join(given)}"
    groups: dict[tuple[str, str], list[str]] = {}
    for device in request["devices"]:
        groups.setdefault((device["outcome"], device.get("detail", "")), []).append(device["device"])
    for (outcome, detail), devices in groups.items():
        if outcome == "free":
            continue
        named = ", ".join(devices[:_NAMED]) + (
            f" and {len(devices) - _NAMED} more" if len(devices) > _NAMED else ""
        )
        yield f"    {outcome}: {named}: {detail}"
