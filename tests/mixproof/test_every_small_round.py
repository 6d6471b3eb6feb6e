"""Every small round, whoever is corrupt and however they choose: docs/mixing.md, "An exhaustive
search".

The real core is searched, over `ideal_algebra`. Without any one of its checks the search finds a
broken promise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import small_carriers
import small_cheats
import small_table
import small_users
from mixing_cuts import CUT
from small_copies import copy_of_all, forget, without
from small_ledger import ALL_RULES
from small_search import Choices, every_run

COALITIONS = (
    ("node 1", "user 1", "user 2"),
    ("node 2", "user 1", "user 2"),
    ("analyst", "user 1", "user 2"),
    ("carrier", "user 1", "user 2"),
    ("node 1", "analyst", "user 2", "carrier"),
)


@dataclass(frozen=True)
class Found:
    """Where the search finds that a check is missing: who is corrupt, how often they deviate, what
    is broken."""

    corrupt: str
    broken: str
    deviations: int = 1
    messages: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)


def given(*moves: str) -> dict[str, Any]:
    """Moves that are made in every run of a search, and are no deviations of it."""
    return {"given": frozenset(moves)}


FOUND = {
    "one encoding": Found("node 2", "P2"),
    "K2": Found("node 2", "P4"),
    "K3": Found("node 2", "P4"),
    "C1 enrolled": Found("node 1", "P1"),
    "C1 lengths": Found("node 1", "P2"),
    "C1 signed": Found("node 1", "P2"),
    "D3 nodes": Found("node 1", "P1", more={"dummies": 1}),
    "C2": Found("user 2", "P2", messages=2),
    "C3": Found("node 1, user 2", "P4", messages=2),
    "C3 powers": Found("node 1, user 2", "P4", messages=2),
    "C4": Found("user 2", "P2"),
    "L1": Found("carrier", "P2"),
    "L3": Found("node 1", "P1"),
    "L4": Found("user 1, user 2", "P2", more={"shared_keys": True}),
    "H1 signed": Found("carrier", "P2"),
    "H1 list": Found("carrier, user 2", "P2", 2),
    "H1 link": Found("node 1, analyst, user 2", "P2", 2, more=given("node 1: signs two headers")),
    "H1 once": Found("node 1", "P1"),
    "H2": Found("node 1, user 2", "P1"),
    "H2 board": Found("analyst", "P3"),
    "H3": Found("node 1, user 1, user 2", "P3", messages=2),
    "H4": Found("carrier", "P2"),
    "H5": Found("node 1", "P1"),
    "H6": Found("node 1", "P1"),
    "H7 left": Found("carrier, user 2", "P1", 2),
    "H7 traced": Found(
        "carrier, user 1, user 2",
        "P1",
        2,
        more={**given("user 1: a bad box at 2"), "min_reports": 1},
    ),
    "H8": Found("carrier", "P1"),
    "F1": Found("user 2", "P3"),
    "F2": Found("node 2", "P3"),
    "F3": Found("user 1, user 2", "P1", 2),
    "F4": Found("carrier", "P2"),
    "T0 accused": Found("carrier, user 2", "P2", 2),
    "T0 step": Found("carrier, user 2", "P2", 2),
    "T0 origin": Found("carrier, user 2", "P2", 2),
    "T0 moves": Found("carrier, user 2", "P2", 2),
    "T0 path": Found("carrier, user 2", "P2", 2),
    "T1": Found("node 2", "node 1 is honest, and breaks down"),
    "T2 opens": Found("node 2", "P2"),
    "T2 share": Found("node 2", "P2"),
    "T3 path": Found("node 2", "node 1 is honest, and breaks down", 2),
    "T3 blinding": Found("node 2, user 2", "P2", 2),
    "T3 deleted": Found("node 2, user 1, user 2", "P2", 2, 2),
    "T4": Found("node 2", "P2"),
    "T5 path": Found("node 1", "P2"),
    "T5 dummies": Found("node 1", "P1", more={"dummies": 2}),
    "T5 blinding": Found("node 1, user 2", "P1", 2),
    "T6 named": Found("node 1, user 2", "P2", 2),
    "T6": Found("node 1, user 2", "P1", 2),
    "T6 path": Found("node 1, user 1, user 2", "P1", 3, 2),
    "T7": Found("node 2", "P2"),
    "after a discard": Found("carrier", "budget"),
}

NOT_NEEDED = {
    "T7 own": "it saves work: H1 (previous) refuses the same",
    "D3 users": "an honest node 1 cannot mix two claims of one credential, and stops",
}

CUTS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    **{check: (where, ((old, new),)) for check, (where, old, new) in CUT.items()},
    # Whoever proves leaves the powers out, too: else no honest user's proof would hold.
    "C3 powers": (
        "proofs",
        (
            ("points.powers(c)", "multiply(c, Element(points.total))"),
            ("power = multiply_add(power, c, _ZERO)", "power = c"),
        ),
    ),
    "after a discard": ("hops", (("# after a discard", "pass"),)),
}


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """`small_rounds` over a copy of the core that computes with ideal algebra."""
    yield copy_of_all(tmp_path_factory.mktemp("ideal"))
    forget()


def search(
    rounds: ModuleType, corrupt: Iterable[str], deviations: int, **size: Any
) -> tuple[int, str, list[str]]:
    """How many runs were played, and the first broken promise, if any, with the moves that led to
    it."""
    played = 0
    for choices, broken in every_run(
        lambda choices: str(rounds.played(corrupt, choices, **size)), deviations
    ):
        played += 1
        if broken:
            return played, broken, choices.said
    return played, "", []


@pytest.mark.parametrize(
    ("deviations", "runs"), [(1, 15), pytest.param(2, 300, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("corrupt", COALITIONS, ids=", ".join)
def test_no_small_round_breaks_a_promise(
    rounds: ModuleType, corrupt: tuple[str, ...], deviations: int, runs: int
) -> None:
    played, broken, said = search(rounds, corrupt, deviations)
    assert not broken, (broken, said)
    assert played > runs


@pytest.mark.parametrize("corrupt", COALITIONS, ids=", ".join)
def test_no_small_round_with_two_messages_breaks_a_promise(
    rounds: ModuleType, corrupt: tuple[str, ...]
) -> None:
    assert search(rounds, corrupt, 1, messages=2)[1:] == ("", [])


@pytest.mark.parametrize("dummies", [1, 2])
@pytest.mark.parametrize("corrupt", COALITIONS, ids=", ".join)
def test_no_small_round_with_dummies_of_nodes_breaks_a_promise(
    rounds: ModuleType, corrupt: tuple[str, ...], dummies: int
) -> None:
    played, broken, moves = search(rounds, corrupt, 1, dummies=dummies)
    assert not broken, (broken, moves)
    assert played > 15


@pytest.mark.parametrize("check", FOUND)
def test_without_the_check_the_search_finds_a_broken_promise(
    rounds: ModuleType, check: str
) -> None:
    found = FOUND[check]
    with without(*CUTS[check]):
        played, broken, said = search(
            rounds,
            found.corrupt.split(", "),
            found.deviations,
            messages=found.messages,
            **found.more,
        )
    assert broken.startswith(found.broken), (broken, said, played)


@pytest.mark.parametrize(
    ("corrupt", "move", "broken"),
    [
        ("node 2", "node 2: shows a true share in a second spelling", "P2 (d)"),
        ("user 2", "user 2: one key in two spellings", "P2: node 1 is honest, and named"),
        ("node 1", "node 1: an honest key in a second spelling", "P1"),
        (
            "node 1, user 1, user 2",
            "node 1: a colluder's key in two spellings",
            "P2: node 2 is honest, and named",
        ),
    ],
)
def test_a_decoder_that_ignores_bit_255_breaks_promises_and_one_encoding_keeps_them(
    rounds: ModuleType, corrupt: str, move: str, broken: str
) -> None:
    """Each element of the ideal group has two spellings, as in libsodium 1.0.18."""
    size = {"messages": 2, **given(move)}
    parties = corrupt.split(", ")
    with without(*CUTS["one encoding"]):
        assert search(rounds, parties, 0, **size)[1].startswith(broken)
    assert search(rounds, parties, 1, **size)[1:] == ("", [])


@pytest.mark.parametrize("rule", sorted(ALL_RULES))
def test_without_a_rule_of_the_ledger_the_search_finds_a_wrong_budget(
    rounds: ModuleType, rule: str
) -> None:
    left = ALL_RULES - {rule}
    broken = [
        search(rounds, corrupt, 2, ledger=left)[1]
        for corrupt in (("analyst",), ("node 1", "analyst"))
    ]
    assert any(each.startswith("budget") for each in broken)


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ((), ""),
        (("opening",), "P4: a message that an honest node put out is linked to its user"),
        (("opening", "blinding"), "P4: the symbol of an honest user's claim is read"),
    ],
    ids=["nothing", "opening", "both"],
)
def test_the_search_sees_what_the_secrets_of_an_honest_node_would_tell(
    rounds: ModuleType, told: tuple[str, ...], seen: str
) -> None:
    """With both of them no element is of one side alone: the claim is read without anything of the
    other one."""
    game = rounds.Round(rounds.Setting(frozenset({"node 1"})), Choices(()))
    game.play()
    assert game.choices.ended == "published"
    game.known += [getattr(game.secrets[1], name) for name in told]
    said = ""
    try:
        rounds.check_links(game)
    except rounds.Broken as broken:
        said = str(broken)
    assert said == seen


def test_every_check_is_searched_or_said_not_to_be_needed() -> None:
    assert FOUND.keys() | NOT_NEEDED.keys() == CUTS.keys()


@pytest.mark.slow
def test_every_move_is_made_in_some_run_that_says_something(rounds: ModuleType) -> None:
    said = set()
    sizes = ({"messages": 2}, 2), ({"dummies": 1}, 1)
    for corrupt, (size, deviations) in product(COALITIONS, sizes):
        for choices, _ in every_run(
            lambda choices, corrupt=corrupt, size=size: rounds.played(corrupt, choices, **size),  # type: ignore[misc]
            deviations,
        ):
            if choices.ended != "moot":
                said |= {each.split(": ")[1] for each in choices.said}
    menus = (
        small_cheats.OUT,
        small_cheats.SHOWN,
        small_cheats.MOVED,
        small_cheats.ACCUSED,
        small_cheats.BOARD,
    )
    others = (
        small_users.MOVES,
        small_users.DUMMY_MOVES,
        small_table.DUMMIES_LIST,
        small_table.KEYS,
        small_table.LIST,
        small_table.PASSED_ON,
        small_table.CLAIMED,
    )
    carried = (small_carriers.DELIVERED, small_carriers.PUBLISHED, small_carriers.STRANGER)
    assert {move for menu in (*menus, *others, *carried) for move in menu} - said == set()


@pytest.mark.slow
@pytest.mark.parametrize("check", NOT_NEEDED)
def test_without_a_check_that_is_not_needed_nothing_is_broken(
    rounds: ModuleType, check: str
) -> None:
    with without(*CUTS[check]):
        assert search(rounds, ("node 1", "analyst", "user 2"), 3)[1:] == ("", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        {"messages": 2},
        {"nodes": 3},
        {"people": 2, "min_reports": 1},
        {"dummies": 1},
        {"dummies": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("corrupt", COALITIONS, ids=", ".join)
def test_no_larger_round_breaks_a_promise(
    rounds: ModuleType, corrupt: tuple[str, ...], size: dict[str, int]
) -> None:
    assert search(rounds, corrupt, 2, **size)[1:] == ("", [])


@pytest.mark.slow
@pytest.mark.parametrize("corrupt", COALITIONS, ids=", ".join)
def test_no_three_deviations_break_a_promise(rounds: ModuleType, corrupt: tuple[str, ...]) -> None:
    assert search(rounds, corrupt, 3)[1:] == ("", [])
