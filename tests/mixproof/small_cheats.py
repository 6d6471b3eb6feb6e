"""Nodes and analysts of small rounds that choose what they put out, accuse and show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mixing_cheats import flipped, last_record, minus_secret
from mixing_spellings import respelled, respelled_share, respelled_sum
from small_search import Moot, Over

from shuffledp_core.mixproof.batches import Elements
from shuffledp_core.mixproof.blame import Case
from shuffledp_core.mixproof.chain import follow, signed_board
from shuffledp_core.mixproof.evidence import (
    AccusedRecord,
    MovedKey,
    Moves,
    Origin,
    Passage,
    Step,
    Trace,
    Transcript,
)
from shuffledp_core.mixproof.group import (
    WIDTH,
    Element,
    Scalar,
    challenge,
    element,
    less,
    multiply,
    total,
)
from shuffledp_core.mixproof.headers import Header, make_header, signed_header
from shuffledp_core.mixproof.hops import Analyst, Hop, Receiver, TraceQuestion
from shuffledp_core.mixproof.proofs import prove_knowledge
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.sampling.randomness import RandomBytes

if TYPE_CHECKING:
    from small_table import Table

Records = list[bytes]

OUT = (
    "exchanges a record",
    "exchanges a record, and signs the sum",
    "exchanges two records, and compensates",
    "doubles a key, and compensates",
    "rubbish under an honest key",
    "an honest key twice",
    "a key that is no element",
    "the identity as a key",
    "drops a record",
    "drops a record, and counts it",
    "two records for one of a colluder's",
    "a colluder's key twice",
    "a colluder's key in two spellings",
    "an honest key in a second spelling",
    "signs the sum in a second spelling",
    "a colluder's key exchanged",
    "a colluder's box under an honest key",
    "an excluded user's record",
    "another symbol under an honest key",
    "signs two headers",
    "two headers, one after the other",
    "says nothing",
)
SHOWN = (
    "a colluder's history",
    "a made-up input",
    "its share in a second spelling",
    "nothing",
    "not signed",
)
MOVED = ("somebody else's records", "keys that were not put out", "nothing")
ACCUSED = (
    "accuses nobody",
    "accuses a record that decrypts",
    "shows a false share",
    "shows a true share in a second spelling",
    "accuses a record that it made up",
)
BOARD = (
    "drops a message",
    "doubles a message",
    "exchanges a message",
    "changes a symbol",
    "adds two messages",
    "a key in a second spelling",
)


def made_up(terms: MixTerms, position: int, secret: Scalar, symbol: int = 0) -> bytes:
    """A record as node `position` puts it out, that opens everywhere behind it."""
    base = terms.route.blinding[-1]
    box = terms.seal(terms.analyst, multiply(secret, base), message_of(terms, secret, symbol))
    for layer in range(terms.hops, max(1, position), -1):
        box = terms.seal(layer, multiply(secret, terms.route.opener(layer)[1]), box)
    return multiply(secret, terms.route.blinding[position]) + box


def message_of(terms: MixTerms, secret: Scalar, symbol: int) -> bytes:
    base, said = terms.route.blinding[-1], symbol.to_bytes(1, "big")
    return said + prove_knowledge(
        "message", (terms.manifest, said), base, multiply(secret, base), secret, bytes
    )


def fresh(what: str) -> Scalar:
    return challenge("fresh", what.encode())


class Corrupt(Receiver):
    """What a corrupt node and a corrupt analyst have in common: they take anything, and accuse whom
    they like."""

    game: Table

    def receive(
        self, headers: Sequence[Header], transcripts: Sequence[Transcript], records: Sequence[bytes]
    ) -> None:
        self._header, self._chain = (
            headers[-1],
            follow(self._terms, self._listed, headers, transcripts),
        )
        try:
            self._batch = self._open(records, Elements(record[:WIDTH] for record in records))
        except Exception as error:
            raise Moot from error

    def accuse(self, random: RandomBytes) -> tuple[AccusedRecord, ...]:
        found = super().accuse(random)
        if self.position == 1:
            return found
        move = self.game.pick(self, ACCUSED)
        if not move:
            return found
        self._settled = move == "accuses nobody"
        self._accusation = () if self._settled else (self._sign_accused(self._false(move, random)),)
        return self._accusation

    def _false(self, move: str, random: RandomBytes) -> AccusedRecord:
        true = self._accuse(
            self.game.honest_place(self._input_batch.keys, self.position - 1), random
        )
        if "share" in move and not true.share:
            raise Moot
        if move == "shows a true share in a second spelling":
            share, proof = respelled_share(self, true.index, random)  # type: ignore[arg-type]
            return replace(true, share=share, proof=proof)
        if move == "shows a false share":
            return replace(true, share=multiply(fresh("share"), Element(true.share)))
        return (
            replace(true, record=flipped(true.record))
            if move == "accuses a record that it made up"
            else true
        )


class CorruptHop(Corrupt, Hop):
    """A corrupt node. `other_header` is the second one that it signed, if any."""

    other_header: Header | None = None
    first_try: tuple[Header, tuple[bytes, ...]] | None = None

    def release(self, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        if self._output is None:
            self._settled, batch = True, self._input_batch
            rubbish = bytes(self._terms.record_bytes(self.position + 1) - WIDTH)
            self._batch = replace(
                batch, contents=tuple(content or rubbish for content in batch.contents)
            )
            super().release(random)
            move = self.game.pick(self, OUT)
            if move:
                self._output = self._moved_out(move, random)
        return self._output_records

    def _moved_out(self, move: str, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        header, records = self._output_records
        if move == "says nothing":
            raise Over
        if move.startswith(("signs two", "two headers")):
            rubbish = self.changed("rubbish under an honest key", list(records))
            other = self.header(rubbish, random)
            if move == "signs two headers":
                self.other_header = other
            else:
                self.first_try = other, records
            return header, records
        if move == "signs the sum in a second spelling":
            return respelled_sum(self, header, random), records
        changed = self.changed(move, list(records))
        if move == "exchanges a record, and signs the sum":
            found = replace(
                self.header(changed, random), total=total(Element(each[:WIDTH]) for each in changed)
            )
            return replace(found, signature=self._sign(signed_header(self._terms, found))), tuple(
                changed
            )
        count = len(records) if move == "drops a record, and counts it" else len(changed)
        return self.header(changed, random, count), tuple(changed)

    def header(self, records: Records, random: RandomBytes, count: int = 0) -> Header:
        chain, root = self.chain, Tree(records).root
        stated = Header(
            self.position,
            chain.link,
            self._listed.digest,
            chain.digest,
            count or len(records),
            root,
        )
        return make_header(
            self._terms, stated, chain.total, self._secrets.blinding, self._sign, random
        )

    def changed(self, move: str, records: Records) -> Records:  # noqa: C901, PLR0912 - a menu
        """The records after a move."""
        terms, at, mine = self._terms, self.position, fresh("exchange")
        victim = self.game.honest_place([Element(record[:WIDTH]) for record in records], at)
        other = next((index for index in range(len(records)) if index != victim), victim)
        keys = [Element(record[:WIDTH]) for record in records]
        if move.startswith("exchanges a record"):
            return [*records[:victim], made_up(terms, at, mine), *records[victim + 1 :]]
        if move.startswith("drops"):
            return [*records[:victim], *records[victim + 1 :]]
        if move == "two records for one of a colluder's":
            secret, place = self._colluder(keys)
            halves = [made_up(terms, at, mine), made_up(terms, at, minus_secret([secret], mine))]
            return [*records[:place], *halves, *records[place + 1 :]]
        box = {index: split_record(record)[1] for index, record in enumerate(records)}
        if move == "exchanges two records, and compensates":
            records[victim] = made_up(terms, at, mine)
            records[other] = (
                less(total((keys[victim], keys[other])), (Element(records[victim][:WIDTH]),))
                + box[other]
            )
        elif move == "doubles a key, and compensates":
            records[victim] = total((keys[victim], keys[victim])) + box[victim]
            records[other] = less(keys[other], (keys[victim],)) + box[other]
        elif move == "rubbish under an honest key":
            records[victim] = flipped(records[victim])
        elif move == "an honest key twice":
            records[other] = flipped(records[victim])
        elif move == "a key that is no element":
            records[victim] = b"\xff" * WIDTH + box[victim]
        elif move == "an honest key in a second spelling":
            records[victim] = respelled(keys[victim]) + box[victim]
        elif move == "the identity as a key":
            records[victim] = bytes(WIDTH) + box[victim]
        elif move == "a colluder's box under an honest key":
            records[victim] = keys[victim] + box[self._colluder(keys)[1]]
        elif move == "another symbol under an honest key":
            content = terms.open(terms.analyst, keys[victim], box[victim])
            if at != terms.hops or content is None:
                raise Moot
            said = bytes([(content[0] + 1) % terms.alphabet]) + content[1:]
            records[victim] = keys[victim] + terms.seal(terms.analyst, keys[victim], said)
        else:
            self._with_two_colluders(move, records, keys)
        return records

    def _with_two_colluders(self, move: str, records: Records, keys: list[Element]) -> None:
        """Moves that need a second colluder, both of whose keys are exchanged to make up for the
        sum."""
        terms, at, mine = self._terms, self.position, fresh("exchange")
        first, second = (self.game.colluders() * 2)[:2]
        if first == second or len(first) < 2:
            raise Moot
        gone, kept = self._place(keys, second[0]), self._place(keys, second[1])
        if move == "a colluder's key exchanged":
            records[self._place(keys, first[1])] = made_up(terms, at, mine)
            records[gone] = made_up(terms, at, minus_secret([first[1], second[0]], mine))
            return
        again = first[1] if move == "an excluded user's record" else first[0]
        records[gone] = made_up(terms, at, again)
        if move == "a colluder's key in two spellings":
            records[gone] = respelled(records[gone][:WIDTH]) + records[gone][WIDTH:]
        records[kept] = made_up(terms, at, minus_secret(second, again))
        if move == "an excluded user's record":
            key = multiply(again, terms.route.blinding[at - 1])
            if key not in self.chain.case.deleted.get(at, ()):
                raise Moot
            index = self._input_batch.keys.index(key)
            records[gone] = self._blind(key) + (self._input_batch.contents[index] or b"")

    def _colluder(self, keys: list[Element]) -> tuple[Scalar, int]:
        for secrets in self.game.colluders():
            return secrets[0], self._place(keys, secrets[0])
        raise Moot

    def _place(self, keys: Sequence[bytes], secret: Scalar) -> int:
        key = multiply(secret, self._terms.route.blinding[self.position])
        if key not in keys:
            raise Moot
        return keys.index(key)

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        """Answers without checking anything."""
        move = self.game.pick(self, SHOWN)
        case = follow(self._terms, self._listed, question.headers, question.transcripts).case
        last, keys = (
            last_record(question.trace),
            [self._blind(key) for key in self._input_batch.keys],
        )
        if move == "a colluder's history":
            colluders = [
                multiply(own[0], self._terms.route.blinding[self.position])
                for own in self.game.colluders()
            ]
            wanted: bytes = next((key for key in colluders if key in keys), b"")
        else:
            wanted = last[:WIDTH]
        if move == "nothing" or wanted not in keys:
            raise Over
        self.game.excused |= move == "not signed"
        return self._shown(case, question.trace, keys.index(Element(wanted)), move, random)

    def _shown(self, case: Case, trace: Trace, at: int, move: str, random: RandomBytes) -> Trace:
        if self.position == 1:
            answer: Origin | Step = self._origin(at, random)
        else:
            share, share_proof = self._proved_share(at, random)
            if move == "its share in a second spelling":
                share, share_proof = respelled_share(self, at, random)
            record, path = self._input_batch.records[at], self._input_batch.tree.path(at)
            if move == "a made-up input":
                box = self._terms.seal(
                    self.position, Element(share), split_record(last_record(trace))[1]
                )
                record = record[:WIDTH] + box
            answer = Step(at, record, path, self._blinding_proof(at, random), share, share_proof)
        if isinstance(answer, Origin):
            signed = self._sign_answer(case, trace, answer)
            return replace(
                trace,
                origin=replace(answer, signature=bytes(64)) if move == "not signed" else signed,
            )
        step = answer if move == "not signed" else self._sign_answer(case, trace, answer)
        return replace(trace, steps=(*trace.steps, step))

    def show_passage(
        self, question: TraceQuestion, passage: Passage, random: RandomBytes
    ) -> Passage:
        """Shows something for each key, without checking anything."""
        move = self.game.pick(self, MOVED)
        if move == "nothing":
            raise Over
        case = follow(self._terms, self._listed, question.headers, question.transcripts).case
        keys = tuple(map(element, case.listed.by_credential[passage.credential].key_list))
        if passage.hops:
            keys = tuple(Element(moved.record[:WIDTH]) for moved in passage.hops[-1].moves)
        return self._sign_moves(
            case, passage, Moves(tuple(self._where(key, move, random) for key in keys))
        )

    def shown_of(self, transcript: Transcript, passage: Passage, random: RandomBytes) -> Passage:
        """Somebody else's passage, signed for the question about a transcript."""
        case = follow(
            self._terms, self._listed, self.game.headers[: transcript.position - 1], ()
        ).case
        keys = tuple(map(element, case.listed.by_credential[passage.credential].key_list))
        return self._sign_moves(
            case, passage, Moves(tuple(self._where(key, "", random) for key in keys))
        )

    def _where(self, key: Element, move: str, random: RandomBytes) -> MovedKey:
        records, blinded = self._output_records[1], self._blind(key)
        tree = Tree(records)
        at = next(
            (index for index, record in enumerate(records) if record[:WIDTH] == blinded), None
        )
        if key not in self._input_batch.keys:
            raise Over
        proof = self._blinding_proof(self._input_batch.keys.index(key), random)
        if move == "somebody else's records":
            out = [Element(record[:WIDTH]) for record in records]
            place = self.game.honest_place(out, self.position)
            return MovedKey(place, records[place], tree.path(place), proof)
        if at is None:
            if move != "keys that were not put out":
                raise Over
            return MovedKey(0, blinded + split_record(records[0])[1], tree.path(0), proof)
        return MovedKey(at, records[at], tree.path(at), proof)


class CorruptAnalyst(Corrupt, Analyst):
    """A corrupt analyst: publishes what it likes."""

    def board(self) -> tuple[tuple[bytes, ...], bytes]:
        self._settled = True
        board = [message for message in super().board()[0] if len(message) > WIDTH]
        move = self.game.pick(self, BOARD)
        terms = self._terms
        if move == "drops a message":
            board = board[1:]
        if move == "doubles a message":
            board[0] = board[-1]
        if move == "exchanges a message":
            board[0] = self._own(fresh("board"))
        if move == "changes a symbol":
            board[0] = (
                board[0][:WIDTH]
                + bytes([(board[0][WIDTH] + 1) % terms.alphabet])
                + board[0][WIDTH + 1 :]
            )
        if move == "a key in a second spelling":
            board[0] = respelled(board[0][:WIDTH]) + board[0][WIDTH:]
        if move == "adds two messages":
            board += [self._own(fresh("board")), self._own(minus_secret([], fresh("board")))]
        if not board:
            raise Over
        return tuple(board), self._sign(signed_board(self.chain, board))

    def _own(self, secret: Scalar) -> bytes:
        return multiply(secret, self._terms.route.blinding[-1]) + message_of(self._terms, secret, 1)
