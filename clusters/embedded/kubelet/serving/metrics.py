"""Metrics of a kubelet about claims and feature gates, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters import feature_metrics
from clusters.embedded.kubelet.rules import PluginError, code_text

_BUCKETS: Final = (0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 20.0, 30.0, 40.0)
_IN_USE_HELP: Final = (
    "# HELP dra_resource_claims_in_use [ALPHA] The number of ResourceClaims that are currently in use on the "
    "node, by driver name (driver_name label value) and across all drivers (special value <any> for "
    "driver_name). Note that the sum of all by-driver counts is not the total number of in-use "
    "ResourceClaims because the same ResourceClaim might use devices from different drivers. Instead, use "
    "the count for the <any> driver_name."
)
Labels = tuple[tuple[str, str], ...]


class _Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.total += value
        for index, bound in enumerate(_BUCKETS):
            if value <= bound:
                self.counts[index] += 1
        self.counts[-1] += 1


class Metrics:
    """What is counted in one life of a kubelet."""

    def __init__(self, gates: Mapping[str, bool] | None = None) -> None:
        """`gates` are the values of its feature gates."""
        self._gates = gates or {}
        self._operations: dict[Labels, _Histogram] = {}
        self._calls: dict[Labels, _Histogram] = {}
        self._skips: dict[str, dict[str, int]] = {"prepare": {}, "unprepare": {}}

    def operation(self, name: str, seconds: float, *, failed: bool) -> None:
        """Note one preparation or its reversal for a Pod."""
        labels = (("operation_name", name), ("is_error", "true" if failed else "false"))
        self._operations.setdefault(labels, _Histogram()).observe(seconds)

    def grpc_call(self, driver: str, method: str, code: str, seconds: float) -> None:
        """Note one call of a driver; `method` is its full name."""
        labels = (("driver_name", driver), ("method_name", method), ("grpc_status_code", code))
        self._calls.setdefault(labels, _Histogram()).observe(seconds)

    def prepare_skipped(self, driver: str) -> None:
        """Note a preparation that the driver does not need."""
        self._skips["prepare"][driver] = self._skips["prepare"].get(driver, 0) + 1

    def unprepare_skipped(self, driver: str) -> None:
        """Note the reversal of a preparation that the driver does not need."""
        self._skips["unprepare"][driver] = self._skips["unprepare"].get(driver, 0) + 1

    @staticmethod
    def code_name(error: PluginError) -> str:
        """The gRPC code of a call that failed; an answer that breaks a rule came with OK."""
        return "OK" if error.code is None else code_text(error.code)

    def text(self, claims_in_use: Mapping[str, int]) -> str:
        """All metrics; `claims_in_use` is by driver."""
        lines = [
            _IN_USE_HELP,
            "# TYPE dra_resource_claims_in_use gauge",
        ]
        for driver, count in sorted(claims_in_use.items()):
            lines.append(f'dra_resource_claims_in_use{{driver_name="{driver}"}} {count}')
        lines += _histograms("dra_operations_duration_seconds", self._operations)
        lines += _histograms("dra_grpc_operations_duration_seconds", self._calls)
        for kind, counts in self._skips.items():
            name = f"dra_node_{kind}_skips_total"
            lines.append(f"# TYPE {name} counter")
            lines += [f'{name}{{driver_name="{driver}"}} {count}' for driver, count in sorted(counts.items())]
        return "\n".join(lines) + "\n" + feature_metrics.text(self._gates)


def _histograms(name: str, histograms: Mapping[Labels, _Histogram]) -> list[str]:
    lines = [f"# TYPE {name} histogram"]
    for labels, histogram in sorted(histograms.items()):
        text = ",".join(f'{key}="{value}"' for key, value in labels)
        bounds = [*map(_number, _BUCKETS), "+Inf"]
        for bound, count in zip(bounds, histogram.counts, strict=True):
            lines.append(f'{name}_bucket{{{text},le="{bound}"}} {count}')
        lines.append(f"{name}_sum{{{text}}} {histogram.total!r}")
        lines.append(f"{name}_count{{{text}}} {histogram.counts[-1]}")
    return lines


def _number(value: float) -> str:
    return f"{value:g}"
