"""`drakit cel`: what a CEL selector says about devices, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import click

from conformance.report.layout import clean
from dra_api.cel import COST_LIMIT, CompileError, DeviceInput, compile_selector
from dra_api.cel.program import Kind
from drakit import json_lines
from drakit.offline import sources
from drakit.offline.expressions import ENVIRONMENTS, Evaluator, evaluated
from drakit.offline.settings import chosen_gates, gate_option, json_option
from drakit.offline.world import Object
from drakit.output import UserError, counted, some, table, write_out

_MAX_LENGTH: Final = 10 * 1024


@click.command("cel")
@click.argument("expression", required=False)
@sources.options
@click.option("--driver", metavar="NAME", default="", help="Only devices of this driver.")
@click.option(
    "--environment",
    type=click.Choice(ENVIRONMENTS),
    default="new",
    show_default=True,
    help="new: as an API server compiles what somebody writes now; stored: as a scheduler does.",
)
@gate_option
@json_option
@click.option("--jsonl", is_flag=True, help="Answer JSON lines of standard input (docs/cel.md).")
def command(
    expression: str | None,
    files: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str,
    driver: str,
    environment: str,
    feature_gates: str,
    as_json: bool,
    jsonl: bool,
) -> int:
    """Evaluate the CEL EXPRESSION of a selector for each device of ResourceSlices.

    \b
    drakit cel 'device.attributes["gpu.example.com"].memory > 40' -f slices.yaml
    drakit cel 'device.driver == "gpu.example.com"' --kubeconfig ~/.kube/config

    For each device it prints whether it matches, or the error that would keep Pods from being scheduled, and the cost
    in CEL's units. Without -f and --kubeconfig the expression is only compiled.

    \b
    Exit codes: 0 it can be used and fails for no device, 1 it cannot be used (syntax, types, length, cost)
    or fails for a device, 2 wrong usage or input.
    """
    if jsonl:
        json_lines.refuse_options("cel")
        return json_lines.serve(Evaluator().answer)
    if expression is None:
        raise UserError(
            "which expression? for example: drakit cel 'device.driver == \"gpu.example.com\"' -f slices.yaml"
        )
    slices: list[Object] = []
    if files or kubeconfig_file is not None:
        seen = sources.view(files, kubeconfig_file, context, feature_gates)
        gates, slices = seen.gates, seen.world.slices
        if not slices:
            raise UserError("there are no ResourceSlices in what was given")
    else:
        gates = chosen_gates(feature_gates)
    enabled = frozenset(name for name, on in gates.items() if on)
    document = judge(expression, slices, driver, cast(Kind, environment), enabled)
    if driver and not document["devices"] and slices:
        names = sorted({entry["spec"]["driver"] for entry in slices})
        raise UserError(f"--driver: no slice is of {driver}; there are {some(names)}")
    if as_json:
        write_out(json.dumps(document, indent=2) + "\n")
    else:
        write_out(_text(document))
    return int(not document["usable"] or any("matchError" in device for device in document["devices"]))


def judge(
    expression: str, slices: Iterable[Object], driver: str, environment: Kind, gates: frozenset[str]
) -> dict[str, Any]:
    """What `--json` prints."""
    document: dict[str, Any] = {
        "expression": expression,
        "environment": environment,
        "usable": False,
        "devices": [],
    }
    if len(expression.encode()) > _MAX_LENGTH:
        size = len(expression.encode())
        document["problem"] = f"too long: {size} bytes, and an API server takes {_MAX_LENGTH} at most"
        return document
    try:
        program = compile_selector(expression, features=gates, environment=environment)
    except CompileError as error:
        document["compileError"] = document["problem"] = str(error)
        return document
    document |= {
        "type": program.output_type,
        "estimatedCost": program.estimated_cost,
        "costLimit": COST_LIMIT,
    }
    document["usable"] = environment == "stored" or program.estimated_cost <= COST_LIMIT
    if not document["usable"]:
        document["problem"] = (
            f"too expensive: the estimate is {program.estimated_cost}, and an API server takes {COST_LIMIT} at most"
        )
    for entry in slices:
        spec = entry["spec"]
        if driver and spec["driver"] != driver:
            continue
        for device in spec.get("devices") or ():
            answer = evaluated(program, device_input(spec["driver"], device))
            del answer["estimatedCost"]
            name = f"{spec['driver']}/{spec['pool']['name']}/{device['name']}"
            document["devices"].append({"device": name, **answer})
    return document


def device_input(driver: str, device: Mapping[str, Any]) -> DeviceInput:
    """A device of a slice as selectors see it."""
    return DeviceInput(
        driver,
        device.get("attributes") or {},
        device.get("capacity") or {},
        device.get("allowMultipleAllocations"),
    )


def _text(document: Mapping[str, Any]) -> str:
    text = ""
    if "type" in document:
        text += (
            f"compiles ({document['environment']} expression) to {document['type']};"
            f" estimated cost {document['estimatedCost']} of {document['costLimit']}\n"
        )
    if "problem" in document:
        text += f"cannot be used: {clean(document['problem'])}\n"
    devices = document["devices"]
    if not devices:
        return text
    rows = []
    for device in devices:
        match = "error" if "matchError" in device else "yes" if device["match"] else "no"
        rows.append(
            (device["device"], match, str(device.get("actualCost", "-")), device.get("matchError", ""))
        )
    text += table(("device", "match", "cost", "error"), rows, right=("cost",))
    matching = sum(bool(device.get("match")) for device in devices)
    failing = sum("matchError" in device for device in devices)
    text += f"{matching} of {counted(len(devices), 'device')} {'matches' if 1 in (matching, len(devices)) else 'match'}"
    if failing:
        text += f"; {failing} with an error, which keeps Pods from being scheduled on every node"
    return f"{text}.\n"
