"""What every command waits for at its start: names, options and help, and no numerics."""

import subprocess
import sys

WAITED_FOR = """
import sys
import shuffledp.cli
print(*sorted({"numpy", "scipy", "matplotlib", "sqlalchemy"} & set(sys.modules)))
"""


def test_the_command_starts_without_numerics() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WAITED_FOR], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == ""


def test_what_traces_and_attacks_wait_for_is_no_library_of_statistics() -> None:
    """scipy.stats takes as long to import as all else that they need."""
    parts = "shuffledp_adversary.tracing.trace, shuffledp_adversary.attacks.spoil"
    code = f"import sys, {parts}; print('scipy.stats' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.strip() == "False"
