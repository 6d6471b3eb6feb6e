"""Vectors of the public log beside a round: signatures, inclusion, and one history."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
from client_rounds import NOW, POPULATION, ROUND_ID, Draft
from vector_cases import ASKED, GENEROUS, Case, make_case, text_of
from vector_world import derive, identity, make_draft, make_roster, sign_roster

from shuffledp_core.documents.models import EndedLog, LogTerms, Roster, Witness
from shuffledp_core.documents.signed import Signed, to_json
from shuffledp_core.runtime.keys import ROOT
from shuffledp_core.transparency.cosignatures import cosign, witness_key
from shuffledp_core.transparency.entries import log_key_of, reservation_entry
from shuffledp_core.transparency.notes import Checkpoint, NoteKey, sign_note
from shuffledp_core.transparency.proofs import InclusionProof
from shuffledp_core.transparency.tree import MerkleTree, leaf_hash
from shuffledp_core.transparency.windows import LogWindow

WITNESSES: Final = ("witness-1", "witness-2", "witness-3")
SECONDS: Final = NOW // 1000


def log_terms(**changes: Any) -> LogTerms:
    """Two of three witnesses must sign."""
    witnesses = tuple(
        Witness(
            name=name,
            operator=f"operator {name[-1]}",
            address=f"https://{name}.example",
            public_key=identity(name).public_key.hex(),
        )
        for name in WITNESSES
    )
    return msgspec.structs.replace(LogTerms(witnesses=witnesses, threshold=2), **changes)


def witnessed_roster(**changes: Any) -> Roster:
    """The roster of the vectors, with witnesses."""
    return make_roster(log=log_terms(**changes))


@dataclass(frozen=True)
class LogDraft:
    """A log that holds a round at `index`, about to be signed; each part can be replaced.

    `last` is the last entry, and the one that is proved."""

    certificate: Signed
    roster: Roster
    size: int = 1
    index: int = 0
    history: str = "log"
    witnesses: tuple[str, ...] = WITNESSES[:2]
    origin: str = ""
    key: NoteKey | None = None
    signer: str = "accountant"
    base: int | None = None
    time: int = SECONDS
    proof: dict[str, Any] = field(default_factory=dict)
    last: bytes | None = None

    def tree(self) -> MerkleTree:
        """All entries; those of other rounds are names."""
        leaves = [derive(self.history, number) for number in range(self.size)]
        entry = reservation_entry(POPULATION, ROUND_ID, self.certificate)
        leaves[self.index] = leaf_hash(entry.to_bytes())
        if self.last is not None:
            leaves[-1] = leaf_hash(self.last)
        return MerkleTree(leaves)

    def note(self) -> str:
        """The signed checkpoint."""
        key = self.key or log_key_of(self.roster)
        root = self.tree().root()
        text = Checkpoint(self.origin or key.name, self.size, root).to_text()
        note = sign_note(text, key, identity(self.signer).key.sign)
        for name in self.witnesses:
            witness = identity(name)
            note += cosign(text, witness_key(name, witness.public_key), witness.key.sign, self.time)
        return note

    def window(self) -> LogWindow:
        """The newest entries' hashes."""
        tree = self.tree()
        if self.base is None:
            return LogWindow.of(tree, self.size)
        levels = [level for level in range(self.base.bit_length())[::-1] if self.base >> level & 1]
        begin, peaks = 0, []
        for level in levels:
            peaks.append(tree.levels[level][begin >> level])
            begin += 1 << level
        return LogWindow(self.base, tuple(peaks), tuple(tree.levels[0][self.base :]))

    def text(self) -> str:
        """The proof as it is announced."""
        index = self.index if self.last is None else self.size - 1
        fields: dict[str, Any] = {
            "index": index,
            "hashes": tuple(self.tree().inclusion_proof(index)),
            "note": self.note().encode(),
            "extra": self.window().to_bytes(),
        }
        return InclusionProof(**(fields | self.proof)).to_bytes().decode()


def make_log_case(
    name: str,
    draft: Draft,
    log: str | None,
    error: str | None = None,
    remembered: str | None = None,
    **policy: Any,
) -> Case:
    """A round with this proof, on a device that remembers another one."""
    announcement = draft.announcement()
    if log is not None:
        announcement = msgspec.structs.replace(announcement, log=log)
    fields = {
        "roster": text_of(sign_roster(draft.deployment.roster)),
        "root_key": identity(ROOT).public_key.hex(),
        "announcement": to_json(announcement).decode(),
        "policy": GENEROUS | policy,
        "population": POPULATION,
        "now": NOW,
        "round_id": ROUND_ID,
    }
    kept = {} if remembered is None else {"remembered": remembered}
    return make_case(name, "round", fields | kept, error)


def logs() -> Iterator[Case]:
    """Rounds of a roster with witnesses: the proof that a round is in the public log."""
    roster = witnessed_roster()
    draft = make_draft(ASKED, roster=roster)
    log = LogDraft(draft.signed_certificate(), roster)
    for size, index in ((1, 0), (2, 1), (3, 2), (7, 3), (64, 63), (65, 64), (200, 150), (1000, 0)):
        entry = replace(log, size=size, index=index)
        yield make_log_case(f"entry {index} of {size}", draft, entry.text())
    yield from _signatures(draft, log)
    yield from _inclusion(draft, log)
    yield from _histories(draft, log)
    yield from _ended_logs()
    yield from _spellings(draft, log)
    yield from _rosters(draft)


def _signatures(draft: Draft, log: LogDraft) -> Iterator[Case]:
    lie, forged = "LogProofError", "SignatureError"
    yield make_log_case("no proof", draft, None, lie)
    yield make_log_case("no proof, for a policy without", draft, None, require_log=False)
    yield make_log_case("a bad proof, for a policy without", draft, "-", require_log=False)
    plain = make_draft(ASKED)
    yield make_log_case("a proof where the roster names no witnesses", plain, log.text())
    for witnesses, error in (
        (WITNESSES, None),
        (WITNESSES[1:], None),
        (("witness-3", "witness-1"), None),
        (("witness-1",), lie),
        (("witness-1", "witness-1"), lie),
        (("witness-1", "a-stranger"), lie),
        ((), lie),
    ):
        text = replace(log, witnesses=witnesses).text()
        yield make_log_case(f"cosigned by {witnesses}", draft, text, error)
    late = replace(log, time=2**63 - 1).text()
    yield make_log_case("cosigned at the last second", draft, late)
    later = replace(log, time=2**63).text()
    yield make_log_case("cosigned after the last second", draft, later, lie)
    impostor = replace(log, signer="an impostor").text()
    yield make_log_case("a checkpoint under another key", draft, impostor, forged)
    key = log_key_of(draft.deployment.roster)
    other = replace(key, name="shuffledp-ledger/other")
    yield make_log_case(
        "the log of another deployment", draft, replace(log, key=other).text(), forged
    )
    named = replace(log, origin=other.name).text()
    yield make_log_case("a checkpoint of another origin", draft, named, lie)
    second = replace(log, key=replace(key, name=f"{key.name}/2")).text()
    yield make_log_case("a second log of which the roster knows nothing", draft, second, forged)
    note = log.note()
    head, _, lines = note.rpartition("\n\n")
    own, *cosigned = lines.splitlines()
    for name, changed, error in (
        ("a cosignature with another time", [own, cosigned[0], _retimed(cosigned[1])], lie),
        ("a cosignature as the log's signature", [cosigned[0], cosigned[1]], forged),
        ("the cosignatures first", [*cosigned, own], None),
        (
            "another key's signature first",
            [own, _retimed(_retimed(cosigned[0], 1)), *cosigned],
            None,
        ),
        ("a false signature before the true one", [_retimed(own), own, *cosigned], forged),
    ):
        note = "\n".join([f"{head}\n", *changed, ""])
        text = replace(log, proof={"note": note.encode()}).text()
        yield make_log_case(name, draft, text, error)


def _retimed(line: str, at: int = 11) -> str:
    """A line with another byte, of the key ID (0 to 3) or of what follows."""
    start, _, encoded = line.rpartition(" ")
    blob = bytearray(base64.b64decode(encoded))
    blob[at] ^= 1
    return f"{start} {base64.b64encode(blob).decode()}"


def _inclusion(draft: Draft, log: LogDraft) -> Iterator[Case]:
    lie, malformed = "LogProofError", "MalformedDocumentError"
    seven = replace(log, size=7, index=3)
    hashes = tuple(seven.tree().inclusion_proof(3))
    for name, proof in (
        ("another index", {"index": 2}),
        ("an index behind the end", {"index": 7}),
        ("a hash less", {"hashes": hashes[:-1]}),
        ("a hash more", {"hashes": (*hashes, bytes(32))}),
        ("hashes in another order", {"hashes": hashes[::-1]}),
        ("a changed hash", {"hashes": (bytes(32), *hashes[1:])}),
        ("no hashes", {"hashes": ()}),
        ("a window of another log", {"extra": replace(seven, history="x").window().to_bytes()}),
    ):
        yield make_log_case(f"{name} in a log of 7", draft, replace(seven, proof=proof).text(), lie)
    yield make_log_case(
        "an index behind the end of a log of 1", draft, replace(log, proof={"index": 1}).text(), lie
    )
    window = seven.window().to_bytes()
    for name, extra in (
        ("no window", b""),
        ("a window of 7 bytes", window[:7]),
        ("a window without its last hash", window[:-32]),
        ("a window with a byte more", window + b"\0"),
        ("a window that begins behind the end", (8).to_bytes(8, "big") + window[8:]),
        ("a window of 2^64 - 1", b"\xff" * 8 + window[8:]),
    ):
        text = replace(seven, proof={"extra": extra}).text()
        yield make_log_case(f"{name} in a log of 7", draft, text, malformed)
    longest = replace(log, size=1026, index=1025, base=2)
    yield make_log_case("a window of 1024 entries", draft, longest.text())
    longer = replace(longest, base=1).text()
    yield make_log_case("a window of 1025 entries", draft, longer, malformed)
    empty = Checkpoint(log_key_of(log.roster).name, 0, MerkleTree().root()).to_text()
    note = sign_note(empty, log_key_of(log.roster), identity("accountant").key.sign)
    for name in WITNESSES:
        witness = identity(name)
        note += cosign(empty, witness_key(name, witness.public_key), witness.key.sign, SECONDS)
    proof = {"note": note.encode(), "extra": bytes(8)}
    yield make_log_case("an empty log", draft, replace(log, proof=proof).text(), lie)
    other = make_draft(
        ASKED, roster=log.roster, certificate={"issued_at": NOW - 20_000, "route": draft.route}
    )
    yield make_log_case("the entry of another certificate", other, log.text(), lie)
    long = make_draft(ASKED, roster=log.roster, certificate={"assumptions": ("x" * 65_000,)})
    yield make_log_case("a certificate longer than an entry", long, log.text(), lie)


def _histories(draft: Draft, log: LogDraft) -> Iterator[Case]:
    lie = "LogProofError"
    shown = replace(log, size=90, index=50)
    for size in (51, 89, 90, 91, 120):
        kept = replace(log, size=size, index=50)
        yield make_log_case(f"90 entries after {size}", draft, shown.text(), None, kept.text())
        fork = replace(kept, history="fork").text()
        yield make_log_case(f"90 entries after {size} others", draft, shown.text(), lie, fork)
    # 26 of 90 entries are before the window: the witnesses saw that the log grew from there.
    older = replace(log, size=20, index=10, history="fork").text()
    yield make_log_case("90 entries after 20 others, too old", draft, shown.text(), None, older)
    few = replace(log, size=51, index=50, witnesses=()).text()
    yield make_log_case("after a log of witnesses of another time", draft, shown.text(), None, few)


def _ended_logs() -> Iterator[Case]:
    plain = witnessed_roster()
    certificate = make_draft(ASKED, roster=plain).signed_certificate()
    first = LogDraft(certificate, plain, size=5, index=2)
    root = first.tree().root().hex()
    roster = witnessed_roster(ended=(EndedLog(size=5, root=root),))
    draft = make_draft(ASKED, roster=roster)
    second = LogDraft(draft.signed_certificate(), roster, size=3, index=2, history="second")
    yield make_log_case("the log after one that ended", draft, second.text())
    yield make_log_case("the log that has ended", draft, first.text(), "SignatureError")
    for size, history, error in (
        (5, "log", None),
        (4, "log", None),
        (6, "log", "LogProofError"),
        (5, "fork", "LogProofError"),
    ):
        kept = replace(first, size=size, history=history).text()
        name = f"the next log, after {size} of 5 entries of the {history}"
        yield make_log_case(name, draft, second.text(), error, kept)
    # The accountant has another identity key since.
    former = identity("a former accountant").public_key
    for key, name, error in (
        (former, "the key that signed it", None),
        (identity("accountant").public_key, "the present key", "SignatureError"),
    ):
        roster = witnessed_roster(ended=(EndedLog(size=5, root=root, public_key=key.hex()),))
        draft = make_draft(ASKED, roster=roster)
        second = LogDraft(draft.signed_certificate(), roster, size=3, index=2, history="second")
        kept = replace(
            first, signer="a former accountant", key=replace(log_key_of(plain), public_key=former)
        ).text()
        yield make_log_case(
            f"after a log that ended with {name}", draft, second.text(), error, kept
        )


def _spellings(draft: Draft, log: LogDraft) -> Iterator[Case]:
    text = replace(log, size=3, index=2).text()
    last = text.rstrip("\n").rpartition(" ")[2]
    hashed = text.splitlines()[3]
    loose = hashed[:-2] + chr(ord(hashed[-2]) + 1) + "="
    line = text.splitlines()[-1]
    spelled: dict[str, str] = {
        "nothing": "",
        "another header": text.replace("@v1", "@v2", 1),
        "an index with a zero before": text.replace("index 2", "index 02"),
        "an index without a space": text.replace("index 2", "index2"),
        "a negative index": text.replace("index 2", "index -2"),
        "an index of 20 digits": text.replace("index 2", f"index 1{'0' * 19}"),
        "no index": text.replace("index 2\n", ""),
        "extra data twice": text.replace("index 2", f"{text.splitlines()[1]}\nindex 2"),
        "empty extra data": "\n".join(["c2sp.org/tlog-proof@v1", "extra ", *text.split("\n")[2:]]),
        "a hash with loose bits": text.replace(hashed, loose),
        "a hash with a space": text.replace(hashed, f" {hashed}"),
        "a hash of 31 bytes": text.replace(hashed, base64.b64encode(bytes(31)).decode()),
        "64 hashes": text.replace(hashed, "\n".join([hashed] * 64)),
        "no empty line": text.replace("\n\n", "\n"),
        "carriage returns": text.replace("\n", "\r\n"),
        "a tab": text.replace("witness-1", "witness\t1"),
        "no line end": text[:-1],
        "a line more": f"{text}\n",
        "a hyphen for a dash": text.replace("\u2014", "-"),
        "a signature that is no base64": text.replace(last, f"{last[:-1]}!"),
        "a signature of four bytes": text.replace(last, "AAAAAA=="),
        "a name with a plus": text.replace("\u2014 witness-1", "\u2014 witness+1"),
        "101 signatures": text + f"{line}\n" * 98,
        "too long": text.replace(hashed, "A" * 2**17),
        "a long note": text + f"\u2014 {'x' * 255} {'A' * 65_600}\n",
    }
    for name, changed in spelled.items():
        if changed == text:
            raise AssertionError(f"{name} changes nothing")
        yield make_log_case(f"a proof with {name}", draft, changed, "MalformedDocumentError")
    for name, changed in {
        "a witness of another alphabet": f"{text}\u2014 \u8a3c\u4eba\ufeff AAAAAAAA\n",
        "100 signatures": text + f"{line}\n" * 97,
    }.items():
        yield make_log_case(f"a proof with {name}", draft, changed)
    for name, lines in {
        "an extension": [*_lines(log), "more"],
        "a size with a zero before": [_lines(log)[0], "01", _lines(log)[2]],
        "a root of 31 bytes": [*_lines(log)[:2], base64.b64encode(bytes(31)).decode()],
        "no root": _lines(log)[:2],
    }.items():
        body = "".join(f"{line}\n" for line in lines)
        note = sign_note(body, log_key_of(log.roster), identity("accountant").key.sign)
        proof = replace(log, proof={"note": note.encode()}).text()
        yield make_log_case(f"a checkpoint with {name}", draft, proof, "MalformedDocumentError")
    with_log = to_json(draft.announcement()).decode()[:-1]
    case = make_log_case("", draft, None, "LogProofError")
    for value in ("null", "1", "[]"):
        fields = case["input"] | {"announcement": f'{with_log},"log":{value}}}'}
        yield make_case(f"a proof that is {value}", "round", fields, "MalformedDocumentError")


def _lines(log: LogDraft) -> list[str]:
    key = log_key_of(log.roster)
    return Checkpoint(key.name, log.size, log.tree().root()).to_text().splitlines()


def _rosters(draft: Draft) -> Iterator[Case]:
    malformed = "MalformedDocumentError"
    case = make_log_case("", draft, None, "LogProofError")
    genuine = msgspec.to_builtins(log_terms())
    first, second, _ = genuine["witnesses"]
    node = draft.deployment.roster.parties[0].identity_key
    spelled: dict[str, Any] = {
        "null": None,
        "a threshold of 0": genuine | {"threshold": 0},
        "a threshold of 4": genuine | {"threshold": 4},
        "no witnesses": genuine | {"witnesses": []},
        "17 witnesses": genuine
        | {
            "witnesses": [
                first | {"name": f"w{n}", "public_key": identity(f"w{n}").public_key.hex()}
                for n in range(17)
            ]
        },
        "a witness twice": genuine | {"witnesses": [first, second | {"name": "Witness-1"}]},
        "a key twice": genuine
        | {"witnesses": [first, second | {"public_key": first["public_key"]}]},
        "a node's key": genuine | {"witnesses": [first, second | {"public_key": node}]},
        "a witness with a space": genuine | {"witnesses": [first | {"name": "a b"}, second]},
        "an unknown field": genuine | {"more": 1},
        "a log of a negative size": genuine | {"ended": [{"size": -1, "root": "00" * 32}]},
        "an ended log whose key is too short": genuine
        | {"ended": [{"size": 1, "root": "00" * 32, "public_key": "00" * 31}]},
        "an ended log without a root": genuine | {"ended": [{"size": 1, "root": ""}]},
    }
    plain = to_json(make_roster()).decode()
    for name, terms in spelled.items():
        body = f'{plain[:-1]},"log":{msgspec.json.encode(terms).decode()}}}'
        root = identity(ROOT)
        signature = root.key.sign(f"shuffledp/v1/roster\0{body}".encode()).hex()
        signed = Signed(label="roster", signer=ROOT, body=body, signature=signature)
        fields = case["input"] | {"roster": text_of(signed)}
        yield make_case(f"a roster's log with {name}", "round", fields, malformed)
