"""The picture of lab 7: who notices each tampering, and a real round with the student's node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from shuffledp.notebook import check_installed
from shuffledp_adversary.attacks.exchange.framing import false_accusation, second_spelling
from shuffledp_adversary.attacks.exchange.tampering import TAMPERINGS, Pool
from shuffledp_adversary.in_process import PlayedRound
from shuffledp_core.errors import BadBlameError
from shuffledp_core.mixproof.blame import check_trace, signed_accused
from shuffledp_core.mixproof.chain import follow
from shuffledp_core.mixproof.claims import check_list
from shuffledp_core.mixproof.evidence import Trace
from shuffledp_labs.errors import CheckFailure, NotWritten, StudentFault
from shuffledp_labs.instance import Draws
from shuffledp_labs.lab import ShowRun
from shuffledp_labs.lab07_cheats.hops import Cheat, HopInput, Hops, exchange
from shuffledp_labs.lab07_cheats.instances import ALPHABET, Cheating, cheating
from shuffledp_labs.lab07_cheats.system import Order, noticed_by, play
from shuffledp_labs.price import measure_price

SHIPPED: Final = (
    ("copies an onion", "copy", 1),
    ("marks an onion", "mark", 1),
    ("drops onions, signs for it", "drop", 1),
    ("sends fewer", "shrink", 2),
    ("sends more", "grow", 2),
    ("doubles a plain message", "double", 3),
    ("changes a plain symbol", "alter", 3),
    ("exchanges the victim's", "substitute", 1),
)
"""(words, name in `TAMPERINGS`, position)."""

EXCHANGES: Final = 3
"""Records that are exchanged in the picture's verified rounds."""

PARTIES: Final = ("a node behind it", "the analyst", "users who look")


@dataclass(frozen=True)
class TamperingRow:
    """One tampering, and the message of each party that noticed it; "" from the others."""

    what: str
    position: int
    noticed: tuple[str, str, str]


def observe(
    instance: Cheating, tamper: Callable[[Pool], Sequence[bytes]], what: str
) -> TamperingRow:
    """The row of one tampering, as seen by all honest parties.

    It assumes that every user holds a receipt.
    """
    played = instance.play(tamper)
    return TamperingRow(
        what, instance.position, (_nodes(played), _analyst(played, instance), _users(played))
    )


def _nodes(played: PlayedRound) -> str:
    dropped = sum(played.dropped.values())
    return f"drops {dropped}" if dropped else ""


def _analyst(played: PlayedRound, instance: Cheating) -> str:
    # Of a loss that was signed for the analyst knows; of any other the counts are wrong.
    lost = instance.records - len(played.board) - sum(played.dropped.values())
    width = played.geometry.symbol_bytes
    tags = [message[width:] for message in played.board]
    left_out = sum(
        tags.count(message[width:]) > 1 or int.from_bytes(message[:width], "big") >= ALPHABET
        for message in played.board
    )
    return "counts wrong" if lost else f"leaves out {left_out}" if left_out else ""


def _users(played: PlayedRound) -> str:
    board = played.board
    wronged = sum(
        any(board.count(message) != 1 for message in messages) for messages in played.messages
    )
    return f"{wronged} of {len(played.messages)} users" if wronged else ""


def known_rows(draws: Draws) -> list[TamperingRow]:
    """Rows of the tamperings that shuffledp's attacks include."""
    rows = []
    for what, name, position in SHIPPED:
        row = observe(cheating(draws.child(name), position, 3), TAMPERINGS[name], what)
        if (
            name == "drop"
        ):  # in a round of its own its header says so, which the rounds in process do not carry
            row = replace(row, noticed=(row.noticed[0], "reads it", row.noticed[2]))
        rows.append(row)
    alone = cheating(draws.child("alone"), 1, 3)
    row = observe(alone, TAMPERINGS["isolate"], "turns all but one away")
    # Users who were turned away hold no receipt, and the one who remains misses nothing.
    rows.append(replace(row, noticed=(*row.noticed[:2], "")))
    return rows


def own_rows(draws: Draws, call: Callable[..., Any]) -> list[TamperingRow]:
    """Rows of the student's function at each position."""
    rows = []
    for position in (1, 2, 3):
        instance = cheating(draws.child(f"own {position}"), position, 3)
        rows.append(
            observe(
                instance,
                lambda pool, messages=instance: list(call("tamper", messages.pool(pool))),  # type: ignore[misc]
                "your tamper",
            )
        )
    return rows


def made_up_list(draws: Draws) -> TamperingRow:
    """The row of a verified round whose node 1 lists users who are not enrolled."""
    hops = Hops(draws, 3)
    strangers = [hops.users[0], *(hops.user() for _ in hops.users[1:])]
    return _row_of_input("lists made-up users", hops.input_at("", 2, users=strangers), 1)


def framing(draws: Draws) -> TamperingRow:
    """Row of a last node that accuses a valid record, with a second encoding of its share."""
    hops = Hops(draws, 3)
    given, last = hops.input_at("", hops.terms.hops), hops.terms.hops
    listed = check_list(given.terms, given.claims, given.enrolled, given.list_signature)
    case = follow(given.terms, listed, given.headers, ()).case
    secret = hops.parties.secrets[last - 1].opening
    accusation = false_accusation(given.terms, last, given.records, 0, secret, second_spelling)
    accusation = replace(
        accusation, signature=hops.parties.signers[last - 1](signed_accused(case, last, accusation))
    )
    try:
        check_trace(case, last, Trace(accusation))
    except BadBlameError as error:
        named = str(error).partition(":")[0]
        return TamperingRow("frames a user, verified", last, ("", f"names {named}", ""))
    return TamperingRow("frames a user, verified", last, ("", "", ""))


def exchange_rows(draws: Draws) -> list[TamperingRow]:
    """Rows of the exchange in verified rounds, by the first node and by the last."""
    hops = Hops(draws, 3)
    return [
        _row_of_input("exchanges", hops.input_at("", at + 1, {at: Cheat(exchange(EXCHANGES))}), at)
        for at in (1, hops.terms.hops)
    ]


def _row_of_input(what: str, given: HopInput, position: int) -> TamperingRow:
    words = {None: "", 0: "stops"}.get(given.due, f"names node {given.due}")
    at_analyst = given.position > given.terms.hops
    return TamperingRow(
        f"{what}, verified", position, ("", words, "") if at_analyst else (words, "", "")
    )


def show(showing: ShowRun) -> Path:
    """Draw the grid; once `tamper` is written, also play a real round with it."""
    rows, program = known_rows(showing.draws), showing.program
    rows.append(made_up_list(showing.draws.child("list")))
    rows.append(framing(showing.draws.child("framing")))
    rows += exchange_rows(showing.draws.child("exchange"))
    price = measure_price(cheating(showing.draws.child("price"), 1, 3).geometry)
    showing.progress(f"verified mixing over plain, on this machine: {price}")
    try:
        rows += own_rows(showing.draws, program.call)
        order = Order(1 + showing.draws.below(3), 5)
        showing.progress(f"a real round with your node at position {order.position}")
        seen = asyncio.run(play(order, lambda pool: list(program.call("tamper", order.pool(pool)))))
        showing.progress(
            f"the round is {seen.public}; {seen.changed} messages exchanged; noticed by "
            f"{noticed_by(seen)}"
        )
    except NotWritten as stub:
        showing.progress(f"{stub}: the picture goes without it, and without what comes after it")
    except (StudentFault, CheckFailure, ValueError, TypeError, KeyError) as fault:
        showing.progress(f"your own tampering is not in the picture: {fault}")
    return draw(rows, showing.out / "grid.png")


def draw(rows: Sequence[TamperingRow], file: Path) -> Path:
    """Draw the grid and write it to a file."""
    check_installed("matplotlib", "shuffledp[plot]", "the picture")
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    from shuffledp_adversary.attacks.picture import CurveRole

    figure = Figure(figsize=(8.6, 1.2 + 0.42 * len(rows)), dpi=140, layout="constrained")
    axes = figure.subplots()
    for line, row in enumerate(rows):
        nobody = not any(row.noticed)
        for column, words in enumerate(row.noticed):
            colour = (
                CurveRole.SAFE.value if words else CurveRole.MEASURED.value if nobody else "#f1f2f3"
            )
            axes.add_patch(
                Rectangle(
                    (column, line), 0.96, 0.9, color=colour, alpha=0.85 if words or nobody else 1.0
                )
            )
            axes.text(
                column + 0.48,
                line + 0.46,
                words or ("nobody" if nobody else "–"),
                ha="center",
                va="center",
                fontsize=9,
                color="white" if words or nobody else CurveRole.LIMIT.value,
            )
    axes.set(xlim=(0, len(PARTIES)), ylim=(len(rows), 0))
    axes.set_xticks([column + 0.48 for column in range(len(PARTIES))], PARTIES)
    axes.set_yticks(
        [line + 0.46 for line in range(len(rows))],
        [f"{row.what}, node {row.position}" for row in rows],
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(
        "Who notices (green), and what nobody notices (orange)", fontsize=12, loc="left", pad=10
    )
    figure.savefig(file)
    return file
