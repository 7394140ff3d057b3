"""What the documents show works as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drakit.up import reference_driver

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.process
def test_the_example_of_tests_on_a_cluster_passes(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", (DOCS / "cluster.md").read_text(), re.DOTALL)
    (tmp_path / "test_example.py").write_text(example)
    shutil.copy(reference_driver(), tmp_path / "gpu.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.splitlines()[-1][:8]) == (0, "1 passed"), done.stdout + done.stderr
