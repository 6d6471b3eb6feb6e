"""Floods a round of a real deployment, such as a class's, with the adversary's accounts.

Run `python -m shuffledp_labs.lab06_surrounded.flooding lab-6/work.py BUNDLE.. [--prior
10,17,29,44]`.

It needs an open round (`make lab-round`), which all other users answer with `shuffledp-client
submit`. Each account sends the symbol that `submissions` of the student's file returns, and once
the board is published `guess` guesses the value of one of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shuffledp_core.errors import ShuffleDPError, UsageError
from shuffledp_labs.errors import BadAnswer
from shuffledp_labs.words import short

if TYPE_CHECKING:
    from shuffledp_client.submission import Member
    from shuffledp_client.verification import CheckedRound
    from shuffledp_core.documents.models import Roster
    from shuffledp_labs.student.process import StudentProgram

POLL_SECONDS: Final = 0.5
"""Between two questions for the result."""


@dataclass(frozen=True)
class FloodAccount:
    """One of the adversary's accounts."""

    keys: Path
    roster: Roster
    member: Member
    population: str


@dataclass(frozen=True)
class Flooding:
    """Outcome of flooding a round.

    Attributes:
        board: count of each symbol on the board.
        sent: count of each symbol that the adversary's accounts sent.
        guess: the student's guess of another user's value.
    """

    board: tuple[int, ...]
    sent: tuple[int, ...]
    guess: int

    @property
    def others_sent(self) -> tuple[int, ...]:
        """How often each symbol was sent by users other than the adversary's accounts."""
        return tuple(total - ours for total, ours in zip(self.board, self.sent, strict=True))


def flood(
    program: StudentProgram, bundles: Sequence[Path], prior: Sequence[int] | None
) -> Flooding:
    """Flood the round that is open now, wait for its end, and guess.

    Args:
        program: the student's.
        bundles: bundles of the adversary's accounts, as `shuffledp keys enrol` made them.
        prior: weights of the values, by the values; None: all alike.

    Raises:
        UsageError: the round is none of k-RR, or the prior does not fit.
        StudentFault: the student's program failed.
        ShuffleDPError: a party refused an account, or the round failed.
    """
    if not bundles:
        raise UsageError("a flood needs the bundle of one account at least")
    with tempfile.TemporaryDirectory(prefix="shuffledp-flood-") as folder:
        accounts = [
            _account(file, Path(folder, str(number))) for number, file in enumerate(bundles)
        ]
        return asyncio.run(_flood(program, accounts, prior))


def _account(file: Path, folder: Path) -> FloodAccount:
    from shuffledp_client.bundle import install, read_bundle
    from shuffledp_client.config import load_member

    config, roster = install(read_bundle(file), folder)
    member, population = load_member(config.keys, roster)
    return FloodAccount(config.keys, config.require_addresses(roster), member, population)


async def _flood(
    program: StudentProgram, accounts: Sequence[FloodAccount], prior: Sequence[int] | None
) -> Flooding:
    from shuffledp_client.board import check_board, check_result
    from shuffledp_client.submission import prepare_answer
    from shuffledp_client.transport import AnalystReader, EntryNode
    from shuffledp_core.answering.decoding import decode

    first = accounts[0]
    verified = await _open_round(first)
    plan = _plan(verified, len(accounts), prior)
    mine = _call_submissions(program, plan)
    prepared = [
        prepare_answer(verified, answer, account.member)
        for answer, account in zip(mine, accounts, strict=True)
    ]
    for submission, account in zip(prepared, accounts, strict=True):
        async with EntryNode(verified.entry, account.keys, account.roster) as entry:
            await entry.submit(submission)
    async with AnalystReader.of(first.keys, first.roster) as analyst:
        ended = check_result(prepared[0], first.roster, await _result(analyst, verified))
        packed = await analyst.board(
            verified.round_id, ended.result.messages * verified.geometry.plain_bytes
        )
    check_board(
        ended, verified.geometry, packed, [prepared_answer.messages for prepared_answer in prepared]
    )
    symbols, accepted = plan["symbols"], ended.result.accepted
    board = tuple(
        int(count) for count in decode(packed, verified.geometry, symbols, accepted).counts
    )
    if accepted == len(accounts):
        raise UsageError("only your accounts took part: there is no one to guess")
    # Those who came, not those who were hoped for.
    guess = program.call("guess", plan | {"users": accepted}, board, mine)
    if type(guess) is not int or not 0 <= guess < symbols:
        raise BadAnswer(f"guess must return a value from 0 to {symbols - 1}, not {short(guess)}")
    return Flooding(board, tuple(mine.count(symbol) for symbol in range(symbols)), guess)


async def _open_round(account: FloodAccount) -> CheckedRound:
    from shuffledp_client.transport import find_round
    from shuffledp_client.verification import parse_announcement, verify_round
    from shuffledp_core.runtime.clock import system_clock
    from shuffledp_sim.users.fleet import ANY_ROUND

    def verify(data: bytes) -> CheckedRound:
        # The adversary has no limits: it takes part in whatever the victim does.
        return verify_round(
            parse_announcement(data),
            account.roster,
            ANY_ROUND,
            account.population,
            system_clock(),
            None,
        )

    return await find_round(account.roster, account.keys, None, verify)


async def _result(analyst: Any, verified: CheckedRound) -> Any:
    from shuffledp_core.errors import UnknownRoundError

    while True:
        try:
            return await analyst.result(verified.round_id)
        except UnknownRoundError:
            await asyncio.sleep(POLL_SECONDS)


def _plan(verified: CheckedRound, accounts: int, prior: Sequence[int] | None) -> dict[str, Any]:
    """The round in the form that the functions of `work.py` get."""
    from shuffledp_core.mechanisms import KRRHistogram

    spec = verified.mechanism
    symbols, blanket = spec.domain, getattr(spec, "blanket", None)
    if blanket is None:
        raise UsageError(
            f"the open round is of {spec.kind}; lab 6 floods rounds of {KRRHistogram.kind}"
        )
    weights = list(prior or [1] * symbols)
    if len(weights) != symbols or min(weights) < 0 or not sum(weights):
        raise UsageError(
            f"the round has {symbols} values: --prior takes as many weights, none below 0"
        )
    return {
        "users": verified.certificate.users,
        "accounts": accounts,
        "symbols": symbols,
        "p": 1 - blanket + blanket / symbols,
        "prior": tuple(Fraction(weight, sum(weights)) for weight in weights),
    }


def _call_submissions(program: StudentProgram, plan: dict[str, Any]) -> tuple[int, ...]:
    answer = program.call("submissions", plan)
    valid = isinstance(answer, tuple) and all(
        type(symbol) is int and 0 <= symbol < plan["symbols"] for symbol in answer
    )
    if not valid or len(answer) != plan["accounts"]:
        raise BadAnswer(
            f"submissions must return {plan['accounts']} whole numbers from 0 to "
            f"{plan['symbols'] - 1}, not {short(answer)}"
        )
    sent: tuple[int, ...] = answer
    return sent


def _weights(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"weights such as 10,17,29,44, not {text!r}") from None


def main() -> int:
    """Flood and guess; return the exit code."""
    parser = argparse.ArgumentParser(prog="flooding", description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path, help="the student's work.py")
    parser.add_argument("bundles", type=Path, nargs="+", help="of the adversary's accounts")
    parser.add_argument(
        "--prior",
        type=_weights,
        help="weight of each value, such as 10,17,29,44; default: all alike",
    )
    options = parser.parse_args()

    from shuffledp_labs.student.pipes import scratch_folder
    from shuffledp_labs.student.process import StudentProgram

    try:
        with scratch_folder() as scratch, StudentProgram(options.work, scratch) as program:
            outcome = flood(program, options.bundles, options.prior)
    except ShuffleDPError as error:
        print(f"flooding: {error}", file=sys.stderr)  # noqa: T201 - the one line a command line owes
        return error.exit_code
    print(  # noqa: T201 - the answer
        f"the board says {outcome.board}, your accounts sent {outcome.sent}, so the others sent "
        f"{outcome.others_sent}: one of them holds {outcome.guess}, says guess"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
