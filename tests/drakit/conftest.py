from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_kit import Cli, new_cli
from clusters_kit import Up


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with new_cli(tmp_path) as found:
        yield found


@pytest.fixture
def up(cli: Cli, tmp_path: Path) -> Iterator[Up]:
    found = Up(cli, tmp_path / "state")
    yield found
    # In good order, so that a failed test leaves nothing either.
    found("down", "--all")
