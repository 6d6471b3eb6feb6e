"""Tracing of an accusation, by the analyst: who is asked for what, and whose silence ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from mixing_attacks import stopped_at
from mixing_cheats import spoiled_user
from mixing_model import World

from shuffledp_analyst.blame import trace_accusation
from shuffledp_core.errors import TooFewReportsError, UnansweredError
from shuffledp_core.mixproof.chain import Chain, follow
from shuffledp_core.mixproof.evidence import Passage, Trace
from shuffledp_core.mixproof.history import Inquiry
from shuffledp_core.mixproof.hops import TraceQuestion

ACCUSER = 3


class Nodes:
    """The nodes before the accuser, one of whom may answer what it was asked.

    `asked` is by whom, and for what.
    """

    def __init__(
        self, world: World, echoes: Callable[[int, Inquiry], bool] = lambda _at, _inquiry: False
    ) -> None:
        self._world, self._echoes = world, echoes
        self.asked: list[tuple[int, str]] = []

    @property
    def chain(self) -> Chain:
        return follow(self._world.terms, self._world.listed, self._world.headers, [])

    async def ask(self, at: int, inquiry: Inquiry) -> Inquiry:
        self.asked.append((at, "keys" if inquiry.passages else "records"))
        if self._echoes(at, inquiry):
            return inquiry
        if inquiry.passages:
            return replace(
                inquiry,
                passages=tuple(self._passed(at, inquiry, each) for each in inquiry.passages),
            )
        hop, random = self._world.hops[at - 1], self._world.random
        return replace(
            inquiry,
            traces=tuple(hop.show(_question(inquiry, each), random) for each in inquiry.traces),
        )

    def _passed(self, at: int, inquiry: Inquiry, passage: Passage) -> Passage:
        (trace,) = (
            one
            for one in inquiry.traces
            if one.origin and one.origin.credential == passage.credential
        )
        return self._world.hops[at - 1].show_passage(
            _question(inquiry, trace), passage, self._world.random
        )


def _question(inquiry: Inquiry, trace: Trace) -> TraceQuestion:
    return TraceQuestion(inquiry.position, inquiry.headers, inquiry.transcripts, trace)


async def test_nodes_are_asked_backwards_for_records_and_forwards_for_keys() -> None:
    world, accused = stopped_at(ACCUSER, spoiled_user(7, ACCUSER))
    nodes = Nodes(world)
    transcript = await trace_accusation(nodes.chain, ACCUSER, accused, nodes.ask)
    assert nodes.asked == [(2, "records"), (1, "records"), (1, "keys"), (2, "keys")]
    assert len(nodes.chain.without(transcript).excluded) == 1


@pytest.mark.parametrize(("silent", "passages"), [(2, False), (1, False), (1, True), (2, True)])
async def test_who_gives_a_question_back_as_it_is_does_not_answer(
    silent: int, *, passages: bool
) -> None:
    """And nobody behind it is asked, who would be said not to answer."""
    world, accused = stopped_at(ACCUSER, spoiled_user(7, ACCUSER))
    nodes = Nodes(world, lambda at, inquiry: at == silent and bool(inquiry.passages) == passages)
    with pytest.raises(UnansweredError, match=f"no answer: node {silent} "):
        await trace_accusation(nodes.chain, ACCUSER, accused, nodes.ask)
    assert nodes.asked[-1] == (silent, "keys" if passages else "records")


async def test_where_too_few_are_left_nobodys_keys_are_traced() -> None:
    """There may be far more of them than a round that goes on would ever show."""
    world, accused = stopped_at(ACCUSER, *(spoiled_user(user, ACCUSER) for user in (5, 6, 7)))
    nodes = Nodes(world)
    with pytest.raises(
        TooFewReportsError, match="5 users are left after exclusions, fewer than the minimum, 6"
    ):
        await trace_accusation(nodes.chain, ACCUSER, accused, nodes.ask)
    assert nodes.asked == [(2, "records"), (1, "records")]
