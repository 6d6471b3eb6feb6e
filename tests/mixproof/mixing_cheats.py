"""Users and nodes that cheat, for the attacks: they use the real code, and change what they
send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixing_model import ALPHABET, MESSAGES, credential_seed, randomness, symbols, terms

from shuffledp_core.mixproof.blame import Case
from shuffledp_core.mixproof.chain import follow
from shuffledp_core.mixproof.claims import PreparedClaim, seal_record, sign_claim
from shuffledp_core.mixproof.evidence import AccusedRecord, Moves, Passage, Step, Trace
from shuffledp_core.mixproof.group import (
    GENERATOR,
    WIDTH,
    Element,
    Scalar,
    minus,
    multiply,
    random_scalar,
    total,
)
from shuffledp_core.mixproof.headers import Header, make_header, signed_header
from shuffledp_core.mixproof.hops import Hop, TraceQuestion
from shuffledp_core.mixproof.proofs import prove_knowledge
from shuffledp_core.mixproof.terms import MixTerms, split_record
from shuffledp_core.mixproof.trees import Tree
from shuffledp_core.sampling.randomness import RandomBytes

Records = list[bytes]


def opposite_keys(user: int) -> PreparedClaim:
    """A user whose two keys add up to the identity, and whose first message says nothing to node
    2."""
    secret = secrets_of(user)[0]
    pair = [secret, minus_secret([], secret)]
    records = [spoiled_record(terms(), secret, 0, 2, "box"), seal_record(terms(), pair[1], 0)]
    return sign_claim(terms(), records, pair, credential_seed(user), randomness("opposite"))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def secrets_of(user: int) -> list[Scalar]:
    random = randomness(f"cheating user {user}")
    return [random_scalar(random) for _ in range(MESSAGES)]


def spoiled_record(
    round_terms: MixTerms, secret: Scalar, symbol: int, layer: int, how: str
) -> bytes:
    """A record that says nothing at `layer`: its box is damaged there, or its symbol or proof are
    bad."""
    random, base = randomness(f"spoiled {layer} {how}"), round_terms.route.blinding[-1]
    key, said = (
        multiply(secret, base),
        (ALPHABET + 7 if how == "symbol" else symbol).to_bytes(1, "big"),
    )
    claimed = flipped(said) if how == "proof" else said
    content = said + prove_knowledge(
        "message", (round_terms.manifest, claimed), base, key, secret, random
    )
    box = round_terms.seal(round_terms.analyst, key, content)
    box = flipped(box) if (layer, how) == (round_terms.analyst, "box") else box
    for position in range(round_terms.hops, 1, -1):
        box = round_terms.seal(
            position, multiply(secret, round_terms.route.opener(position)[1]), box
        )
        box = flipped(box) if (layer, how) == (position, "box") else box
    return multiply(secret, GENERATOR) + box


def spoiled_user(user: int, layer: int, how: str = "box", message: int = 0) -> PreparedClaim:
    """A user one of whose messages says nothing; the claim is in order."""
    random, secrets = randomness(f"spoiled user {user}"), secrets_of(user)
    records = [
        seal_record(terms(), secret, symbol)
        for secret, symbol in zip(secrets, symbols(user), strict=True)
    ]
    records[message] = spoiled_record(terms(), secrets[message], symbols(user)[message], layer, how)
    return sign_claim(terms(), records, secrets, credential_seed(user), random)


class Cheat(Hop):
    """A node that sends other records than it should, with a header that fits them as far as it
    can."""

    def changed(self, records: Records) -> Records:
        return records

    def release(self, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        if self._output is None:
            _, records = super().release(random)
            changed = self.changed(list(records))
            self._output = self.header(changed, random), tuple(changed)
        return self._output

    def header(self, records: Records, random: RandomBytes) -> Header:
        chain, root = self.chain, Tree(records).root
        stated = Header(
            self.position, chain.link, self._listed.digest, chain.digest, len(records), root
        )
        return make_header(
            self._terms, stated, chain.total, self._secrets.blinding, self._sign, random
        )

    def made_up(self, secret: Scalar, symbol: int = 0) -> bytes:
        """A record of its own making that opens at every layer behind this node."""
        round_terms, random = self._terms, randomness("made up")
        base = round_terms.route.blinding[-1]
        key, said = multiply(secret, base), symbol.to_bytes(1, "big")
        box = round_terms.seal(
            round_terms.analyst,
            key,
            said
            + prove_knowledge("message", (round_terms.manifest, said), base, key, secret, random),
        )
        for position in range(round_terms.hops, max(1, self.position), -1):
            box = round_terms.seal(
                position, multiply(secret, round_terms.route.opener(position)[1]), box
            )
        return multiply(secret, round_terms.route.blinding[self.position]) + box

    def place(self, secret: Scalar) -> int:
        """Where a colluding user's message stands in what this node puts out."""
        key, records = (
            multiply(secret, self._terms.route.blinding[self.position]),
            super().release(randomness("x"))[1],
        )
        return next(index for index, record in enumerate(records) if record[:WIDTH] == key)


class Exchanger(Cheat):
    """Puts a record of its own in the place of another one; keys no longer add up."""

    def changed(self, records: Records) -> Records:
        return [self.made_up(random_scalar(randomness("exchange"))), *records[1:]]


class FalseSum(Exchanger):
    """Exchanges, and signs the sum that its records really have."""

    def header(self, records: Records, random: RandomBytes) -> Header:
        found = super().header(records, random)
        found = replace(found, total=total(Element(record[:WIDTH]) for record in records))
        return replace(found, signature=self._sign(signed_header(self._terms, found)))


class Compensator(Cheat):
    """Exchanges one record, and lets the key of another make up for it in the sum."""

    def changed(self, records: Records) -> Records:
        own = self.made_up(random_scalar(randomness("compensate")))
        first, second = (Element(record[:WIDTH]) for record in records[:2])
        other = minus(total((first, second)), Element(own[:WIDTH]))
        return [own, other + split_record(records[1])[1], *records[2:]]


class Doubler(Cheat):
    """Marks a record by doubling its key, and takes the difference off another one."""

    def changed(self, records: Records) -> Records:
        first, second = (Element(record[:WIDTH]) for record in records[:2])
        doubled = total((first, first)) + split_record(records[0])[1]
        return [doubled, minus(second, first) + split_record(records[1])[1], *records[2:]]


class Rubbish(Cheat):
    """Puts rubbish under an honest key."""

    def changed(self, records: Records) -> Records:
        return [flipped(records[0]), *records[1:]]


class Copier(Cheat):
    """Puts a copy of a key with rubbish in the place of another record."""

    def changed(self, records: Records) -> Records:
        return [records[0], flipped(records[0]), *records[2:]]


class Invalid(Cheat):
    """Gives a record a key that is no element."""

    key = b"\xff" * WIDTH

    def changed(self, records: Records) -> Records:
        return [self.key + split_record(records[0])[1], *records[1:]]


class Identity(Invalid):
    """Gives a record the identity as its key."""

    key = bytes(WIDTH)


class Dropper(Cheat):
    """Drops a record."""

    def changed(self, records: Records) -> Records:
        return records[1:]


class Torn(Cheat):
    """Sends other records than those under its root."""

    def release(self, random: RandomBytes) -> tuple[Header, tuple[bytes, ...]]:
        header, records = super().release(random)
        return header, (flipped(records[0]), *records[1:])


class Adder(Cheat):
    """Makes two records out of one of the colluding user 7: a report more than there are people."""

    def changed(self, records: Records) -> Records:
        secret, half = secrets_of(7)[0], random_scalar(randomness("half"))
        at = self.place(secret)
        pair = [self.made_up(half), self.made_up(subtracted(secret, half))]
        return [*records[:at], *pair, *records[at + 1 :]]


class DoubleForColluder(Cheat):
    """User 7's spoiled record goes out as it is, and its key once more with a box that opens, in
    the place of user 6's.

    User 6 colludes, too: its other key makes up for the sum.
    """

    def changed(self, records: Records) -> Records:
        spoiled, (gone, kept) = secrets_of(7)[0], secrets_of(6)
        rest = minus_secret([gone, kept], spoiled)
        places = self.place(gone), self.place(kept)
        changed = list(records)
        changed[places[0]], changed[places[1]] = self.made_up(spoiled), self.made_up(rest)
        return changed


class SymbolChanger(Cheat):
    """The last node opens a message with the key that it makes, and seals another symbol with the
    old proof."""

    def changed(self, records: Records) -> Records:
        key, box = Element(records[0][:WIDTH]), split_record(records[0])[1]
        content = self._terms.open(self._terms.analyst, key, box) or b""
        symbol = bytes([(content[0] + 1) % ALPHABET])
        return [
            key + self._terms.seal(self._terms.analyst, key, symbol + content[1:]),
            *records[1:],
        ]


class FalseAccuser(Hop):
    """Accuses a record that opens."""

    def accuse(self, random: RandomBytes) -> tuple[AccusedRecord, ...]:
        self._accusation = (self._sign_accused(self.false(self._accuse(0, random))),)
        return self._accusation

    def false(self, accused: AccusedRecord) -> AccusedRecord:
        return accused


class FalseShare(FalseAccuser):
    """Shows a share with which the record does not open."""

    def false(self, accused: AccusedRecord) -> AccusedRecord:
        return replace(accused, share=multiply(self._secrets.opening, Element(accused.share)))


class ForeignRecord(FalseAccuser):
    """Accuses a record that it never got: a victim's key with rubbish."""

    def false(self, accused: AccusedRecord) -> AccusedRecord:
        return replace(accused, record=flipped(accused.record))


class Silent(Rubbish):
    """Puts out rubbish and does not answer for it."""

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:  # noqa: ARG002
        return question.trace


class TrueHistory(Rubbish):
    """Puts out rubbish, and shows the true record that it had."""

    def _check_question(self, question: TraceQuestion) -> tuple[Case, bytes]:
        return unchecked(self, question)


class FalseInput(TrueHistory):
    """Puts out rubbish, and shows an input made up for it, which never was in its batch."""

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        trace = super().show(question, random)
        case, last = self._check_question(question)
        step = trace.steps[-1]
        box = self._terms.seal(self.position, Element(step.share), split_record(last)[1])
        false = self._sign_answer(
            case, question.trace, replace(step, record=step.record[:WIDTH] + box)
        )
        return replace(trace, steps=(*trace.steps[:-1], false))


class Blamer(Cheat):
    """Gives honest records the box of the colluding user 7's spoiled one, and says that they came
    from it."""

    def changed(self, records: Records) -> Records:
        at = self.place(secrets_of(7)[0])
        victim = 0 if at else 1
        changed = list(records)
        changed[victim] = records[victim][:WIDTH] + split_record(records[at])[1]
        return changed

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        at = self.place(secrets_of(7)[0])
        own = self._order[at]
        share, share_proof = self._proved_share(own, random)
        record, path = self._input_batch.records[own], Tree(self._input_batch.records).path(own)
        step = Step(own, record, path, self._blinding_proof(own, random), share, share_proof)
        signed = self._sign_answer(unchecked(self, question)[0], question.trace, step)
        return replace(question.trace, steps=(*question.trace.steps, signed))


class FalseOrigin(Rubbish):
    """Node 1 puts out rubbish and says that its owner sent it."""

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        place = next(
            index
            for index, record in enumerate(self._output_records[1])
            if record == last_record(question.trace)
        )
        origin = self._origin(self._order[place], random)
        return replace(
            question.trace,
            origin=self._sign_answer(unchecked(self, question)[0], question.trace, origin),
        )


class OtherOwner(Rubbish):
    """Node 1 puts out what the colluding user 7 committed to under a victim's key, and names user 7
    for it."""

    def changed(self, records: Records) -> Records:
        at = self.place(secrets_of(7)[0])
        victim = 0 if at else 1
        changed = list(records)
        changed[victim] = records[victim][:WIDTH] + split_record(records[at])[1]
        return changed

    def show(self, question: TraceQuestion, random: RandomBytes) -> Trace:
        own = self._order[self.place(secrets_of(7)[0])]
        origin = self._origin(own, random)
        return replace(
            question.trace,
            origin=self._sign_answer(unchecked(self, question)[0], question.trace, origin),
        )


class FalsePassage(Cheat):
    """Shows an honest user's records as the named user's, so that they are deleted."""

    def show_passage(
        self, question: TraceQuestion, passage: Passage, random: RandomBytes
    ) -> Passage:
        found = super().show_passage(question, passage, random)
        records = self._output_records[1]
        shown = {moved.index for moved in found.hops[-1].moves}
        others = [index for index in range(len(records)) if index not in shown][: len(shown)]
        tree = Tree(records)
        moves = tuple(
            replace(moved, index=index, record=records[index], path=tree.path(index))
            for moved, index in zip(found.hops[-1].moves, others, strict=True)
        )
        return self._sign_moves(unchecked(self, question)[0], passage, Moves(moves))


class Placeless(Cheat):
    """Exchanges user 7's second key (user 6's makes up for it), and still shows its way as it
    should be."""

    def changed(self, records: Records) -> Records:
        secret = random_scalar(randomness("placeless"))
        gone, kept = secrets_of(7)[1], secrets_of(6)[0]
        places = self.place(gone), self.place(kept)
        changed = list(records)
        changed[places[0]] = self.made_up(secret)
        changed[places[1]] = self.made_up(minus_secret([gone, kept], secret))
        return changed

    def show_passage(
        self, question: TraceQuestion, passage: Passage, random: RandomBytes
    ) -> Passage:
        found = super().show_passage(question, passage, random)
        moves = tuple(
            replace(
                moved,
                record=multiply(secret, self._terms.route.blinding[self.position])
                + split_record(moved.record)[1],
            )
            for moved, secret in zip(found.hops[-1].moves, secrets_of(7), strict=True)
        )
        return self._sign_moves(unchecked(self, question)[0], passage, Moves(moves))


class Hoarder(Cheat):
    """Excludes the colluding user 7, and puts its second record out all the same, in the place of
    user 6's."""

    def changed(self, records: Records) -> Records:
        kept, (gone, other) = secrets_of(7)[1], secrets_of(6)
        places = self.place(gone), self.place(other)
        changed = list(records)
        index = self._input_batch.keys.index(
            multiply(kept, self._terms.route.blinding[self.position - 1])
        )
        self._order[places[0]] = index
        changed[places[0]] = self._blind(self._input_batch.keys[index]) + (
            self._input_batch.contents[index] or b""
        )
        changed[places[1]] = self.made_up(minus_secret([gone, other], kept))
        return changed

    def _check_question(self, question: TraceQuestion) -> tuple[Case, bytes]:
        return unchecked(self, question)


def unchecked(hop: Hop, question: TraceQuestion) -> tuple[Case, bytes]:
    """What a node acts on that does not check what it was shown."""
    case = follow(hop._terms, hop._listed, question.headers, question.transcripts).case
    return case, last_record(question.trace)


def last_record(trace: Trace) -> bytes:
    return trace.steps[-1].record if trace.steps else trace.accused.record


def minus_secret(summands: Sequence[Scalar], less: Scalar) -> Scalar:
    order = 2**252 + 27742317777372353535851937790883648493
    value = sum(int.from_bytes(each, "little") for each in summands) - int.from_bytes(
        less, "little"
    )
    return Scalar((value % order).to_bytes(WIDTH, "little"))


def subtracted(left: Scalar, right: Scalar) -> Scalar:
    return minus_secret([left], right)
