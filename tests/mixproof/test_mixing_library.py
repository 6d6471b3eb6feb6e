"""The group's library: loaded where a round needs it and nowhere else, and no copy of it is left
behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLAIN = (
    "import sys, shuffledp_client.device, shuffledp_shuffler.app, shuffledp_analyst.app\n"
    "assert 'rbcl' not in sys.modules"
)
USE = "from shuffledp_core.mixproof.group import GENERATOR, total; total([GENERATOR, GENERATOR])"
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000,) * 2)"


def run(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_plain_rounds_do_not_load_it_and_its_use_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run(tmp_path, PLAIN, USE)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_unpacked_the_error_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, LIMIT, USE)
    assert "ConfigError: the arithmetic of verified mixing cannot be loaded" in done.stderr
    assert "set TMPDIR" in done.stderr
