"""What every command waits for at its start: names, options and help, and no numerics."""

import subprocess
import sys

WAITED_FOR = """
import sys
import shuffledp.cli
print(*sorted({"numpy", "scipy", "matplotlib", "sqlalchemy"} & set(sys.modules)))
"""


def test_the_command_starts_without_numerics() -> None:
    done = subprocess.run([sys.executable, "-c", WAITED_FOR], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == ""
