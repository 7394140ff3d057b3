"""Settings of the API server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusters.embedded.apiserver.auth.tokens import StaticTokens


@dataclass(frozen=True)
class ServerConfig:
    """Settings of one API server.

    `port` 0 takes a free port. `feature_gates` and `runtime_config` have the meaning of the flags of the same
    names. `tokens` are bearer tokens of fixed users; more may be added while the server runs.
    `disabled_admission` names admission plugins to leave out. `clock` gives seconds since the epoch: timestamps of
    objects and tokens follow it, timeouts of requests run in real time. `history` is the number of changes per
    resource that can be watched from, `watch_queue` how many changes a slow watcher may lag behind before it is
    cut off. `bookmark_interval` and the range of watch timeouts are seconds. `kubelet_token` is the
    bearer token with which the server reads logs from kubelets; `kubelet_ca` the PEM of the authority of their
    certificates (empty: they are not verified, as by a real server without --kubelet-certificate-authority), and
    `kubelet_timeout` how many seconds a connection may take. Events end `event_ttl` seconds after their
    last write, by the clock. Requests that the server failed to handle go to `log`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    tokens: StaticTokens = field(default_factory=StaticTokens)
    anonymous: bool = True
    disabled_admission: tuple[str, ...] = ()
    clock: Callable[[], float] = time.time
    history: int = 2_000
    watch_queue: int = 10_000
    bookmark_interval: float = 60.0
    watch_timeout: tuple[float, float] = (1800.0, 3600.0)
    max_body: int = 3 * 1024 * 1024
    kubelet_token: str = ""
    kubelet_ca: str = ""
    kubelet_timeout: float = 10.0
    event_ttl: float = 3600.0
    log: logging.Logger = field(default=logging.getLogger(__package__))
