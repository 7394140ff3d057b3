"""Runs the reference driver: `python -m driver`."""

from __future__ import annotations

import sys

from driver.main import main

if __name__ == "__main__":
    sys.exit(main())
