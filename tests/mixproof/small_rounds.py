"""A whole small round, in which whoever is corrupt chooses at each step.

And what must hold of it however they choose.

`play` raises `Broken` where a property of docs/mixing.md does not hold. See "An exhaustive search"
there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import small_carriers as carriers
from small_blame import Blame
from small_cheats import Corrupt, CorruptAnalyst, CorruptHop
from small_ledger import Ledger
from small_links import check_links
from small_opening import Opening
from small_search import Broken, Choices, Moot, Over
from small_table import Setting, signer
from small_truth import check_board_truth, check_crowd

from shuffledp_core.errors import RoundStateError, ShuffleDPError
from shuffledp_core.mixproof.chain import check_board
from shuffledp_core.mixproof.evidence import AccusedRecord
from shuffledp_core.mixproof.group import Element
from shuffledp_core.mixproof.hops import Analyst, Hop, Receiver


class Round(Opening, Blame):
    """One run."""

    def play(self) -> None:
        """The whole round; `choices.ended` then says how it went."""
        published = False
        try:
            self.make_keys()
            self.take_claims()
            self.make_list()
            self.mix()
            self.publish()
            published, self.choices.ended = True, "published"
        except (Over, Moot) as end:
            self.excused, self.choices.ended = (
                True,
                "moot" if isinstance(end, Moot) else "no answer",
            )
        except ShuffleDPError as error:
            self.choices.ended = str(error)
            named = self.check_named(error)
            few = "users are left" in str(error) or "too few" in str(error)
            if not (named or few or self.excused):
                raise Broken(
                    f"P2 (c): nobody said nothing, and nobody is named: {error}"
                ) from error
        self.settle(published=published)
        if hasattr(self, "terms") and (self.shown or self.odd_keys):
            check_links(self)

    def party(self, position: int) -> Receiver:
        corrupt = self.is_corrupt(
            "analyst" if position > self.setting.nodes else f"node {position}"
        )
        if position > self.setting.nodes:
            analyst = (CorruptAnalyst if corrupt else Analyst)(
                self.terms, self.listed, signer(position)
            )
            return self.seated(analyst)
        mine = self.second_list if self.second_list and position == 1 else self.listed
        hop = (CorruptHop if corrupt else Hop)(
            self.terms, mine, position, self.secrets[position - 1], signer(position)
        )
        return self.seated(hop)

    def seated(self, party: Receiver) -> Receiver:
        if isinstance(party, Corrupt):
            party.game = self
        return party

    def mix(self) -> None:
        self.parties = [self.party(position) for position in range(1, self.setting.nodes + 2)]
        senders = (*self.sent.values(), *self.dummies.values())
        submissions = {sent.claim.credential: sent.submission for sent in senders}
        if self.second_list:
            submissions.update([self.second_submission])
        first = self.parties[0]
        assert isinstance(first, Hop)
        with self.by(first):
            first.take(submissions)
        records: tuple[bytes, ...] = ()
        for party in self.parties:
            if self.pick("carrier", ("ends the round",)):
                raise Over
            if party.position > 1:
                self.deliver(party, records)
            with self.by(party):
                accused = party.accuse(self.random)
            self.note_shown(party, accused)
            self.ask_early(party)
            if accused:
                self.blame(party, accused)
            if isinstance(party, Hop):
                records = self.release(party)

    def deliver(self, party: Receiver, records: tuple[bytes, ...]) -> None:
        before = self.parties[party.position - 2]
        if isinstance(before, CorruptHop) and before.first_try and not self.is_corrupt(party):
            header, torn = before.first_try
            self.harmless(
                lambda: party.receive([*self.headers[:-1], header], self.transcripts, torn)
            )
        if not self.is_corrupt(party):
            move = self.pick("carrier", carriers.DELIVERED)
            if move:
                damaged = carriers.delivered(move, self.headers, self.transcripts, records)
                self.harmless(lambda: party.receive(*damaged))
        taken = party._header
        with self.by(party):
            party.receive(self.headers, self.transcripts, records)
        if (
            taken is not None
            and taken.parts() != self.headers[-1].parts()
            and not self.is_corrupt(party)
        ):
            raise Broken("P1: an honest party takes a second header for its batch")

    def note_shown(self, party: Receiver, accused: Sequence[AccusedRecord]) -> None:
        if not self.is_corrupt(party):
            self.shown += [(party.position, Element(each.share)) for each in accused if each.share]

    def ask_early(self, party: Receiver) -> None:
        if not isinstance(party, Hop) or self.is_corrupt(party) or not party._accusation:
            return
        if self.pick("carrier", ("asks for the batch before all is settled",)):
            with suppress(RoundStateError):
                self.release(party)

    def release(self, party: Hop) -> tuple[bytes, ...]:
        with self.by(party):
            header, records = party.release(self.random)
        self.headers.append(header)
        self.outputs[party.position] = records
        if not self.is_corrupt(party):
            self.forwarded.add(party.position)
            check_crowd(self, party)
            if self.pick("carrier", ("asks for the batch again",)) and party.release(
                self.random
            ) != (header, records):
                raise Broken("P1: an honest node puts out two batches")
        return records

    def publish(self) -> None:
        analyst = self.parties[-1]
        assert isinstance(analyst, Analyst)
        with self.by(analyst):
            board, signature = analyst.board()
        move = self.pick("carrier", carriers.PUBLISHED)
        if move:
            damaged = carriers.published(move, self.headers, self.transcripts, board)
            self.harmless(lambda: check_board(self.terms, self.listed, *damaged, signature))
        chain = check_board(
            self.terms, self.listed, self.headers, self.transcripts, board, signature
        )
        check_board_truth(self, chain, board)

    def settle(self, *, published: bool) -> None:
        """Every node forgets the round and says whether it let anything out.

        Then the budget is settled.
        """
        ledger, words = Ledger(self.setting.ledger), []
        ledger.charge("round")
        if self.pick("analyst", ("asks for the certificate again",)):
            ledger.charge("round")
        for position in range(1, self.setting.nodes + 1):
            honest = not self.is_corrupt(f"node {position}")
            if honest and self.parties:
                self.forget(position)
            if honest or not self.pick(f"node {position}", ("signs no discard",)):
                words.append(honest and position in self.forwarded)
        if not published or self.is_corrupt("analyst"):
            for _ in range(2 if self.pick("analyst", ("asks for the release twice",)) else 1):
                ledger.release("round", words, self.setting.nodes)
        everybody = all(
            self.is_corrupt(f"node {position}") for position in range(1, self.setting.nodes + 1)
        )
        spent = ledger.spent
        if not 0 <= spent <= 1 or (self.forwarded and not spent and not everybody):
            raise Broken(
                f"budget: {spent} is charged, and the honest nodes {sorted(self.forwarded)} let "
                "something out"
            )

    def forget(self, position: int) -> None:
        hop = self.parties[position - 1]
        assert isinstance(hop, Hop)
        hop.erase()
        with suppress(RoundStateError, AttributeError):
            hop.release(self.random)
            raise Broken("budget: a node lets something out after it said that nothing more will")


def played(corrupt: Iterable[str], choices: Choices, **size: Any) -> str:
    """Plays one run; returns which promise it breaks, or "". `size` are fields of `Setting`."""
    try:
        Round(Setting(frozenset(corrupt), **size), choices).play()
    except Broken as broken:
        return str(broken)
    return ""
