"""What one bench finds out about the driver for all of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Findings:
    """What needs to be found out once.

    `started`: its command works. `stranger`: it registers, but under other names. `deviceless`: why nothing can be
    tested that needs a device; "" by now.
    """

    started: bool = False
    stranger: bool = False
    deviceless: str = ""
