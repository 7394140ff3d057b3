"""Clusters that stay when a run has ended: those of `drakit up`, found again by what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from clusters.interface import ClusterError, ClusterSpec
from drakit import up
from drakit.state import Folder, Record, StateError


def ensure(tier: str, spec: ClusterSpec, version: str, note: Callable[[str], None]) -> Record:
    """The cluster in the background that is as the spec says; it is started unless it runs.

    `version` is Kubernetes' as the user has named it. Raises ClusterError.
    """
    order = up.Order(
        name=_name(tier, spec, version),
        nodes=len(spec.nodes),
        tier=tier,
        version=version,
        gates=dict(spec.gates),
        runtime_config=dict(spec.runtime_config),
        kubelet=dict(spec.kubelet),
        scheduler_config=spec.scheduler_config,
    )
    try:
        folder = Folder(order.name)
        found = folder.running()
        if not found:
            up.start(order, note)
        record = folder.record()
    except StateError as error:
        raise ClusterError(str(error)) from None
    except up.KitBrokeError as error:
        raise ClusterError(f"the process of the cluster broke:\n{error}") from None
    except OSError as error:
        raise ClusterError(f"{error.filename or 'cannot start'}: {error.strerror}") from None
    if record is None:
        raise ClusterError(
            f'cluster "{order.name}" is being started by another run; try again when it is ready'
        )
    state = "is used again" if found else "is kept"
    note(f'cluster "{order.name}" {state}; "drakit down --name {order.name}" ends it')
    return record


def root(record: Record) -> Path:
    """The folder of everything that a running cluster keeps."""
    return Path(record.logs).parent


def _name(tier: str, spec: ClusterSpec, version: str) -> str:
    text = json.dumps([tier, version, asdict(spec)], sort_keys=True)
    return f"kept-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
