"""Runs a student's `link` on the logs of any round with corrupt nodes.

The round may be a demo's or a deployment's in containers.

    python -m shuffledp_labs.lab04_onion.replay lab-4/work.py out/ROUND [--logs FOLDER] [--corrupt
    1,2]

A round's folder holds the signed documents and the board; the logs lie in it, or in FOLDER, into
which `deploy/class.sh logs` copies those of containers. The claims are compared with what the
product's own attack finds, since only a simulation knows the truth.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shuffledp_core.errors import ShuffleDPError

if TYPE_CHECKING:
    from shuffledp_adversary.tracing.trace import CapturedRound


@dataclass(frozen=True)
class ReplayedClaims:
    """Senders that a student's `link` claims on a captured round.

    Attributes:
        messages: on the board.
        proved: the claims among them that the logs prove.
        claimed: claims that were made.
        alike: claims that are also proved, with the same sender.
    """

    messages: int
    proved: int
    claimed: int
    alike: int


def replay(
    work: Path, captured: CapturedRound, corrupt: frozenset[int] | None = None
) -> ReplayedClaims:
    """Run `link` from a student's file on a captured round.

    Raises:
        StudentFault: `link` failed.
        UsageError: a node in the request has no log.
    """
    from shuffledp_adversary.tracing.links import NOBODY, join_logs
    from shuffledp_core.errors import UsageError
    from shuffledp_labs.lab04_onion.rounds import plain_logs
    from shuffledp_labs.student.pipes import scratch_folder
    from shuffledp_labs.student.process import StudentProgram

    positions = frozenset(captured.logs) if corrupt is None else corrupt
    if not positions or not positions <= captured.logs.keys():
        raise UsageError(
            f"there are logs of the nodes {sorted(captured.logs)}, not of {sorted(positions)}"
        )
    logs = {position: captured.logs[position] for position in positions}
    board = [row.tobytes() for row in captured.board]
    plain = plain_logs(logs, captured.manifest.geometry.messages_per_user)
    with scratch_folder() as scratch, StudentProgram(work, scratch) as program:
        claims = list(program.call("link", plain, board, seconds=120.0))
    proved = join_logs(logs, captured.board).senders.tolist()
    pairs = list(zip(claims, proved, strict=True))
    return ReplayedClaims(
        messages=len(board),
        proved=sum(owner != NOBODY for owner in proved),
        claimed=sum(claim != NOBODY for claim in claims),
        alike=sum(claim == owner != NOBODY for claim, owner in pairs),
    )


def _positions(text: str) -> frozenset[int]:
    try:
        return frozenset(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"numbers of nodes such as 1,2, not {text!r}") from None


def main() -> int:
    """Print the links that were found; return the exit code."""
    parser = argparse.ArgumentParser(prog="replay", description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path, help="the student's work.py")
    parser.add_argument("folder", type=Path, help="the round's folder, out/ROUND")
    parser.add_argument(
        "--logs", type=Path, help="folder with the logs, where they are not in the round's"
    )
    parser.add_argument(
        "--corrupt", type=_positions, help="use the logs of these nodes only, such as 1,2"
    )
    options = parser.parse_args()

    from shuffledp_adversary.tracing.trace import load_captured

    try:
        done = replay(options.work, load_captured(options.folder, options.logs), options.corrupt)
    except ShuffleDPError as error:
        print(f"replay: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    print(  # noqa: T201 - the answer
        f"{done.messages} messages; the logs prove {done.proved} senders; link makes "
        f"{done.claimed} claims, {done.alike} of them proved"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
