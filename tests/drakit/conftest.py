from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import Cli, new_cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with new_cli(tmp_path) as found:
        yield found
