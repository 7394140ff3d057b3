"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from clusters import gates
from clusters.gates import GateError
from drakit.output import UserError


def gate_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--feature-gates, as `feature_gates`."""
    return click.option(
        "--feature-gates",
        metavar="GATE=true,...",
        default="",
        help=f"Gates of the cluster that differ from the defaults of {gates.LATEST}, or from what the cluster of"
        " --kubeconfig tells; all: every gate of DRA.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def chosen_gates(text: str, version: str = gates.LATEST) -> Mapping[str, bool]:
    """Every gate of a cluster with this setting. Raises UserError."""
    try:
        return gates.effective(gates.choose(text, version), version)
    except GateError as error:
        raise UserError(f"--feature-gates: {error}") from None
