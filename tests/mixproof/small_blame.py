"""Blame in a small round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import small_carriers as carriers
import small_users as users
from small_cheats import CorruptHop
from small_search import Broken
from small_table import Table
from small_truth import check_shown

from shuffledp_core.mixproof.blame import Case, check_passage, check_trace, judge, signed_accused
from shuffledp_core.mixproof.chain import follow
from shuffledp_core.mixproof.evidence import AccusedRecord, Passage, Trace, Transcript
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.hops import Hop, Receiver, TraceQuestion


class Blame(Table):
    """An accusation, from the first question to its end."""

    def blame(self, party: Receiver, accused: Sequence[AccusedRecord]) -> None:
        position, before = party.position, self.parties[: party.position - 1]
        case = follow(self.terms, self.listed, self.headers, self.transcripts).case
        traces: list[Trace] = []
        for one in accused:
            trace = Trace(one)
            if not self.is_corrupt(party):
                check_trace(case, position, trace)
            for hop in reversed(before):
                assert isinstance(hop, Hop)
                trace = self.asked(party, hop, trace)
                check_trace(case, position, trace)
            traces.append(trace)
            self.check_excluded(party, trace.origin.credential if trace.origin else b"")
        named = {trace.origin.credential: trace for trace in traces if trace.origin}
        passages = tuple(
            self.passage(position, credential, named[credential]) for credential in sorted(named)
        )
        transcript = Transcript(position, tuple(traces), passages)
        if not self.is_corrupt(party):
            for who in ("carrier", "node 1") if position == 2 else ("carrier",):
                move = self.pick(
                    who, carriers.answered(transcript) if who == "carrier" else carriers.STRANGER
                )
                if move:
                    damaged = carriers.damaged_transcript(self, move, transcript)
                    self.harmless(lambda damaged=damaged: judge(case, damaged))  # type: ignore[misc]
                    self.harmless(lambda damaged=damaged: party.settle(damaged))  # type: ignore[misc]
        if not party._settled:
            with self.by(party):
                party.settle(transcript)
            self.transcripts.append(transcript)
        for each in party.chain.excluded:
            if each.credential in {users.credential(user) for user in self.honest_users()}:
                raise Broken("P2 (a): an honest user is excluded")

    def asked(self, accuser: Receiver, hop: Hop, trace: Trace) -> Trace:
        """A node's answer; who asks may put another header before the node's."""
        question = TraceQuestion(
            accuser.position, tuple(self.headers), tuple(self.transcripts), trace
        )
        first = self.parties[0]
        other = first.other_header if isinstance(first, CorruptHop) and hop.position > 1 else None
        if other and self.pick(accuser, ("asks behind another header",)):
            headers = (other, *self.headers[1:])
            self.harmless(lambda: self.judged_behind(headers, accuser, hop, trace))
        return self.asked_truly(hop, question)

    def judged_behind(
        self, headers: tuple[Header, ...], accuser: Receiver, hop: Hop, trace: Trace
    ) -> None:
        """The accuser signs again, for other headers, and has the node's answer judged behind
        those."""
        case = Case(self.terms, self.listed, headers)
        again = replace(
            trace.accused,
            signature=accuser._sign(signed_accused(case, accuser.position, trace.accused)),
        )
        question = TraceQuestion(
            accuser.position, headers, tuple(self.transcripts), replace(trace, accused=again)
        )
        answer = hop.show(question, self.random)
        check_trace(
            follow(self.terms, self.listed, headers, self.transcripts).case,
            accuser.position,
            answer,
        )

    def asked_truly(self, hop: Hop, question: TraceQuestion) -> Trace:
        with self.by(hop):
            answer = hop.show(question, self.random)
        if not self.is_corrupt(hop):
            check_shown(self, hop, answer)
        return answer

    def check_excluded(self, accuser: Receiver, credential: bytes) -> None:
        if credential in {users.credential(user) for user in self.honest_senders()}:
            raise Broken("P2 (a): a trace leads to an honest user")
        if credential in {each.credential for each in accuser.chain.excluded}:
            raise Broken("P2: a trace leads to somebody who was excluded before")

    def passage(self, position: int, credential: bytes, trace: Trace) -> Passage:
        case = follow(self.terms, self.listed, self.headers, self.transcripts).case
        question = TraceQuestion(position, tuple(self.headers), tuple(self.transcripts), trace)
        passage = Passage(credential)
        for hop in self.parties[: position - 1]:
            assert isinstance(hop, Hop)
            with self.by(hop):
                passage = hop.show_passage(question, passage, self.random)
            check_passage(case, passage)
        return passage
