"""The addresses of sandboxes: each free one in turn, as the host-local plugin of CNI gives them out."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from clusters.containers.model import RuntimeServiceError


class Addresses:
    """Addresses of a network whose first is the gateway's."""

    def __init__(self, pod_cidr: str) -> None:
        network = ipaddress.IPv4Network(pod_cidr)
        self._first = int(network.network_address) + 2
        self._count = network.num_addresses - 3
        self._last = self._first - 1

    def take(self, sandbox_id: str, used: Collection[str]) -> str:
        """The next address that is not in use. Raises RuntimeServiceError when there is none."""
        for step in range(self._count):
            number = self._first + (self._last + 1 - self._first + step) % self._count
            address = str(ipaddress.IPv4Address(number))
            if address not in used:
                self._last = number
                return address
        lowest, highest = (ipaddress.IPv4Address(self._first + step) for step in (-1, self._count - 1))
        raise RuntimeServiceError(
            "Unknown",
            f'failed to setup network for sandbox "{sandbox_id}": plugin type="host-local" failed (add): failed to '
            f"allocate for range 0: no IP addresses available in range set: {lowest}-{highest}",
        )
