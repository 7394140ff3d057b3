"""What the process of a cluster is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drakit import up


def test_the_address_of_the_ledger_with_its_password_is_no_variable_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[dict[str, str]] = []

    def popen(command: Any, **options: Any) -> None:
        given.append(options["env"])
        raise OSError("enough")

    monkeypatch.setattr(up.subprocess, "Popen", popen)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DRAKIT_LEDGER", "redis://:secret@host")
    monkeypatch.setenv("DRAKIT_OTHER", "kept")
    order = up.Order("c", 1, "embedded", "1.37", schedulers=2, ledger="redis://:secret@host")
    with pytest.raises(OSError, match="enough"):
        up.start(order, print)
    (environment,) = given
    assert "secret" not in " ".join(environment.values())
    assert environment["DRAKIT_OTHER"] == "kept"
