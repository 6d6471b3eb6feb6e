"""Advice on errors for a deployment's operator, in agreement with docs/operations.md.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import ShuffleDPError, by_code


@dataclass(frozen=True)
class OperatorAdvice:
    """The meaning of an error and its remedy, in two plain sentences."""

    happened: str
    do: str


_ADVICE: Final = {
    "TooFewReportsError": OperatorAdvice(
        "Fewer people answered than the round's minimum, so nothing was forwarded and no answer "
        "was seen by anyone.",
        "Nothing is lost: the budget is released once every node has signed that it forwarded "
        "nothing. Keep the next round open longer, or plan for fewer reports.",
    ),
    "BudgetExceeded": OperatorAdvice(
        "The population's privacy budget does not cover this round.",
        "Nothing was charged. Ask for a smaller ε, or ask other people. Do not raise the budget "
        "because it is spent: that weakens the promise to everyone who took part.",
    ),
    "CannotCertify": OperatorAdvice(
        "No guarantee can be certified for these numbers.",
        "`shuffledp advise` shows what is possible with this number of people: usually a larger ε, "
        "or more reports.",
    ),
    "UnreachableError": OperatorAdvice(
        "A party did not answer within the time limit.",
        "Start the party that the message names, look at its log, then open a new round.",
    ),
    "DuplicateIdentityError": OperatorAdvice(
        "Two processes run with the keys of one party, such as a copied machine or a second "
        "replica.",
        "Stop one of the two, which the message above tells apart, then open a new round.",
    ),
    "DiskError": OperatorAdvice(
        "The disk of a party is full, or refuses writes.",
        "What was refused was not stored. Free space at the party that the message names, then "
        "retry; open rounds continue by themselves.",
    ),
    "BusyError": OperatorAdvice(
        "A party has reached its limit of simultaneous calls.", "Wait a moment and try again."
    ),
    "BadBatchError": OperatorAdvice(
        "A batch was incomplete, or more of its messages were unreadable or repeated than the plan "
        "allows.",
        "A node, or more users than “colluding”, misbehaved; the node that refused says how many. "
        "Plan for more colluding users, or investigate that node.",
    ),
    "CountMismatchError": OperatorAdvice(
        "Two nodes disagree about the number of messages.",
        "The signed batch headers show which two. Do not use these nodes until you know why.",
    ),
    "LostMessagesError": OperatorAdvice(
        "Messages were lost, duplicated or invalid, and this mechanism needs every one of them.",
        "The message above says how many. Open a new round; if it happens again, choose a "
        "mechanism that tolerates losses.",
    ),
    "BadListError": OperatorAdvice(
        "The entry node signed a list of people that a verified round does not allow: it cheated, "
        "or is damaged.",
        "The message above says what is wrong with the list. Let another node begin the route "
        "until you know why, then open a new round.",
    ),
    "BadHopError": OperatorAdvice(
        "A node of a verified round signed an output that does not follow from its input: it "
        "cheated, or is damaged.",
        "The message above names the node. Leave it out of the route until you know why, then open "
        "a new round.",
    ),
    "BadBlameError": OperatorAdvice(
        "An accusation in a verified round does not verify: the accuser, or a node in its trace, "
        "is at fault.",
        "The message above names the party. Leave it out of the route until you know why, then "
        "open a new round.",
    ),
    "UnansweredError": OperatorAdvice(
        "In a verified round an answer is missing, unsigned or inconsistent; no party can be "
        "proved guilty.",
        "The message above says where: start that party, or check its log and the connection to "
        "it, then open a new round.",
    ),
    "RoundKeyError": OperatorAdvice(
        "A node's key for this round is missing, not signed by the node, or for another round.",
        "No device was asked. Look at the log of the node that the message names, then open a new "
        "round.",
    ),
    "RoundFailed": OperatorAdvice(
        "The round was cancelled by the operator, or could not be resumed after a restart of the "
        "analyst.",
        "The message above has the reason. Open a new round.",
    ),
    "NodeFault": OperatorAdvice(
        "A node could not continue, often because of a damaged disk.",
        "The message says which file. Replace the disk, then open a new round.",
    ),
    "LedgerError": OperatorAdvice(
        "The accountant's ledger is damaged, of another version, or unreachable.",
        "Nothing was changed. See “LedgerDown” in the operations guide, and do not restore a "
        "backup in haste.",
    ),
    "StaleRosterError": OperatorAdvice(
        "The roster has expired, or a party has seen a newer one.",
        "Install the current roster.json, or run `shuffledp keys renew --roster`.",
    ),
    "ExpiredTLSCertificateError": OperatorAdvice(
        "A TLS certificate, or the authority that issued it, has expired.",
        "Run `shuffledp keys renew`, install the files and restart the party.",
    ),
    "DocumentError": OperatorAdvice(
        "A signed document does not verify: its signature, its content or its signer is wrong.",
        "Do not use the round. Find out who supplied the document; fetch a saved round again.",
    ),
    "PolicyRefusal": OperatorAdvice(
        "A configured policy forbids this.", "The message above names the rule."
    ),
    "ConfigError": OperatorAdvice(
        "A file, a key or an option is wrong.", "The message above names it."
    ),
    "AccessDenied": OperatorAdvice(
        "The key that was used has no permission for this.",
        "Use the operator's keys of this deployment.",
    ),
    "RoundStateError": OperatorAdvice(
        "The round's state does not allow this, usually because the round has ended.",
        "Reload the page of the round.",
    ),
    "ShuffleDPError": OperatorAdvice(
        "Something failed.", "The message above says what; the party's log has details."
    ),
}


def advice(error: str) -> OperatorAdvice:
    """The advice for the error with this name.

    An error without advice of its own has that of its nearest base class.
    """
    kinds = [error, *(kind.__name__ for kind in by_code(error).__mro__)]
    return next(_ADVICE[name] for name in [*kinds, ShuffleDPError.__name__] if name in _ADVICE)
