"""What an error means for who operates a deployment, and what to do: as docs/operations.md says it.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import ShuffleDPError, by_code


@dataclass(frozen=True)
class OperatorAdvice:
    """Two plain sentences about an error."""

    happened: str
    do: str


_ADVICE: Final = {
    "TooFewReportsError": OperatorAdvice(
        "Fewer people answered than the round's minimum, so nothing was forwarded and nobody saw "
        "an answer.",
        "Nothing is lost: the budget is given back once every node has signed so. Keep the next "
        "round open longer, or plan for fewer reports.",
    ),
    "BudgetExceeded": OperatorAdvice(
        "The population's privacy budget does not cover this round.",
        "Nothing was charged. Ask for a smaller ε, or ask other people; a budget is not raised "
        "because it is spent.",
    ),
    "CannotCertify": OperatorAdvice(
        "No sound guarantee is known for these numbers.",
        "`shuffledp advise` shows what can be had with so many people: mostly a larger ε, or more "
        "reports.",
    ),
    "UnreachableError": OperatorAdvice(
        "A party was away for longer than it is waited for.",
        "Start the party that is named, look at its log, then open a new round.",
    ),
    "DuplicateIdentityError": OperatorAdvice(
        "Two processes run with the keys of one party: a copied machine, or a second replica.",
        "Stop one of the two that the sentence above tells apart, then open a new round.",
    ),
    "DiskError": OperatorAdvice(
        "The disk of a party is full, or refuses to be written.",
        "Nothing was kept of what was refused. Make room at the party that is named, then ask "
        "again; rounds that were open go on by themselves.",
    ),
    "BusyError": OperatorAdvice(
        "A party had no room for the call.", "Wait a moment and try again."
    ),
    "BadBatchError": OperatorAdvice(
        "A batch was torn, or more messages were unreadable or repeated than the plan has room "
        "for.",
        "A node, or more users than “colluding”, misbehaved; the node that refused says how many. "
        "Plan for more colluding users, or look at that node.",
    ),
    "CountMismatchError": OperatorAdvice(
        "Two nodes disagree about how many messages there were.",
        "The signed batch headers show between which two it happened. Stop using that pair until "
        "you know why.",
    ),
    "LostMessagesError": OperatorAdvice(
        "Messages were lost, doubled or invalid, and this mechanism's answer needs every one of "
        "them.",
        "The sentence above says how many. Open a new round; if it happens again, take a "
        "mechanism that bears losses.",
    ),
    "BadListError": OperatorAdvice(
        "The entry node signed a list of people that a verified round does not allow: it cheated, "
        "or is damaged.",
        "The sentence above says what is wrong with it. Have another node begin the route until "
        "you know why, then open a new round.",
    ),
    "BadHopError": OperatorAdvice(
        "A node of a verified round signed what does not follow from what came in: it cheated, or "
        "is damaged.",
        "The sentence above names it. Leave that node out of the route until you know why, then "
        "open a new round.",
    ),
    "BadBlameError": OperatorAdvice(
        "An accusation in a verified round does not stand: whoever gave it, or a step of its "
        "trace, is at fault.",
        "The sentence above names who. Leave that node out of the route until you know why, then "
        "open a new round.",
    ),
    "UnansweredError": OperatorAdvice(
        "A verified round lacks an answer, or has one that is not signed or disagrees; nobody can "
        "be shown guilty.",
        "The sentence above says where: start that party, or look at its log and at the line to "
        "it, then open a new round.",
    ),
    "RoundKeyError": OperatorAdvice(
        "A node's key of this round is missing, is not signed by it, or is another round's.",
        "Nobody was asked yet. Look at the log of the node that is named, then open a new round.",
    ),
    "RoundFailed": OperatorAdvice(
        "The round was given up: by the operator, or by the analyst after a restart that it could "
        "not go on from.",
        "The reason is above. Open a new round.",
    ),
    "NodeFault": OperatorAdvice(
        "A node could not go on: often a damaged disk.",
        "The node says which file. Replace the disk, then open a new round.",
    ),
    "LedgerError": OperatorAdvice(
        "The accountant's ledger is damaged, of another version, or away.",
        "Nothing was changed. See “LedgerDown” in the operations guide, and do not restore a "
        "backup in haste.",
    ),
    "StaleRosterError": OperatorAdvice(
        "The roster has ended, or a party has seen a newer one.",
        "Put the present roster.json in place, or run `shuffledp keys renew --roster`.",
    ),
    "ExpiredTLSCertificateError": OperatorAdvice(
        "A TLS certificate, or the authority above it, has ended.",
        "Run `shuffledp keys renew`, put the files in place and restart the party.",
    ),
    "DocumentError": OperatorAdvice(
        "A signed document cannot be believed: its signature, its content or its owner is wrong.",
        "Do not use the round. Find out who passed the document on; for a saved round, fetch it "
        "again.",
    ),
    "PolicyRefusal": OperatorAdvice(
        "A rule that somebody chose forbids this.", "The sentence above names the rule."
    ),
    "ConfigError": OperatorAdvice(
        "A file, a key or an option is wrong.", "The sentence above names it."
    ),
    "AccessDenied": OperatorAdvice(
        "The key that was used may not do this.", "Use the operator's keys of this very deployment."
    ),
    "RoundStateError": OperatorAdvice(
        "The round is not in a state for this, mostly because it has ended meanwhile.",
        "Look at the round again.",
    ),
    "ShuffleDPError": OperatorAdvice(
        "Something failed.", "The sentence above says what; the log of the party says more."
    ),
}


def advice(error: str) -> OperatorAdvice:
    """The advice for an error by its name.

    For one without any of its own, that of the branch that it is of.
    """
    kinds = [error, *(kind.__name__ for kind in by_code(error).__mro__)]
    return next(_ADVICE[name] for name in [*kinds, ShuffleDPError.__name__] if name in _ADVICE)
