"""The seed of random comparisons, drawn once a run and shown at its beginning."""

from __future__ import annotations

import os
import secrets

import pytest

SEED = "DRAKIT_ORACLE_SEED"


def pytest_configure() -> None:
    os.environ.setdefault(SEED, str(secrets.randbelow(2**32)))


def pytest_report_header() -> str:
    return f"random comparisons with upstream: fresh seed {os.environ[SEED]} ({SEED} repeats it)"


@pytest.fixture(scope="session")
def fresh_seed() -> int:
    return int(os.environ[SEED])
