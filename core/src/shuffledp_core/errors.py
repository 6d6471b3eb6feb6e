"""All errors of the system, as one tree whose branches state who is at fault.

`ShuffleDPError` is the only root. Our own misuse of our own functions is a plain `ValueError`
instead. Each class has a stable wire `code` (its name), an exit code for command lines, and is
re-raised on the other side of an RPC as the same class (`shuffledp_core.transport.rpc_errors`). A
message says what was wrong, with the value, and what to do.
"""

from __future__ import annotations

from typing import ClassVar, Final

MAX_TEXT: Final = 2000
"""Longest message in characters. Ours are far shorter; anything longer quotes someone else."""


class ShuffleDPError(Exception):
    """Root of all failures of the system. Exit code 1 unless a branch says otherwise.

    A message often quotes what others sent: names, reasons, details of a call. It ends up in signed
    results, records on disk, logs, trailing metadata and terminals, so it is made one printable
    line of bounded length here, where each of them begins.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(_shorten(message))


def _shorten(text: str) -> str:
    line = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
    return (
        line
        if line.isprintable()
        else "".join(letter if letter.isprintable() else " " for letter in line)
    )


class ConfigError(ShuffleDPError):
    """A configuration file, an option or the environment is wrong. Exit code 2."""

    exit_code = 2


class UsageError(ConfigError):
    """A parameter is outside its allowed range; the message names the value and the range.

    Exit code 2.
    """


class ParameterError(UsageError, ValueError):
    """A parameter of a mechanism has the wrong type or is outside its range.

    A `ValueError` too, so that a document with such a parameter is refused as malformed. Exit code
    2.
    """


class NotInstalledError(ConfigError):
    """An optional package is not installed; the message says how to install it.

    Exit code 2.
    """


class OutputError(ConfigError):
    """A file or folder cannot be written: no such path, no permission, no space. Exit code 2."""


class PortInUseError(ConfigError):
    """The address that a service should listen on is in use."""


class DocumentError(ShuffleDPError):
    """A signed document does not verify. Its signer or a relay is at fault."""


class SignatureError(DocumentError):
    """The signature does not match the bytes under the key the roster names."""


class MalformedDocumentError(DocumentError):
    """The signature is good but the content breaks the schema, the version or a range."""


class ExpiredDocumentError(DocumentError):
    """The document is outside its period of validity."""


class ForeignDocumentError(DocumentError):
    """The document is genuine but belongs to another deployment, round or party."""


class EvidenceError(DocumentError):
    """A bundle of evidence does not prove its claim.

    The message says what is missing.
    """


class FalseResultError(DocumentError):
    """A genuine result contradicts the board or headers it rests on: its signer errs or lies."""


class FalseCertificateError(DocumentError):
    """A genuine certificate overstates its mechanism's privacy: its signer errs or lies."""


class ProofError(DocumentError):
    """A group element, a number or a proof of verified mixing is malformed or does not hold."""


class LedgerBehindError(DocumentError):
    """A plan's certificate comes from a ledger that has lost charges which this node saw signed."""


class LogProofError(DocumentError):
    """A transparency log fails to prove an entry, or its history was changed."""


class StaleRosterError(ConfigError, DocumentError):
    """The roster has expired, or is older than one that this process has used before.

    Exit code 2.
    """


class PolicyRefusal(ShuffleDPError):  # noqa: N818 - the field's own word; not every refusal is an error
    """A configured policy or rule forbids this. Exit code 3."""

    exit_code = 3


class ClientPolicyRefusal(PolicyRefusal):
    """The round asks for more than the user's own policy allows."""


class BudgetExceeded(PolicyRefusal):
    """The privacy budget of the population does not cover the round.

    The message says what is left.
    """


class CannotCertify(PolicyRefusal):
    """No sound guarantee can be computed for this request; the message says why."""


class ClientFault(ShuffleDPError):  # noqa: N818
    """A client sent something that no correct client sends."""


class InvalidSubmissionError(ClientFault):
    """Wrong length, wrong round, bad client signature, or an envelope that fails to decrypt."""


class UnknownCredentialError(ClientFault):
    """The credential is not signed by the enrolment key of the round's population."""


class WithdrawnCredentialError(UnknownCredentialError):
    """The credential is genuine but no longer valid: it was withdrawn, or has expired."""


class DifferentSubmissionError(ClientFault):
    """A second submission of the same credential differs from the accepted one."""


class SubmissionClosedError(ClientFault):
    """The round is not open: too early, too late, full, or already closed."""


class BadClaimError(ClientFault):
    """A claim of verified mixing is not signed, not proved, or does not fit its records."""


class NodeFault(ShuffleDPError):  # noqa: N818
    """A mix node did something that no correct node does, or failed."""


class BadBatchError(NodeFault):
    """A batch is incomplete or too long, or repeats onions or holds ones that fail to decrypt."""


class RoundKeyError(NodeFault):
    """A node's round key is missing, not signed by it, or for another round or position."""


class BadListError(NodeFault):
    """The entry node's signed list of claims breaks a rule of verified mixing and convicts it."""


class BadHopError(NodeFault):
    """A header or batch of verified mixing does not follow from the list and the earlier hops."""


class BadBlameError(NodeFault):
    """An accusation, or a step of its trace, does not hold: the party that gave it is at fault."""


class DuplicateIdentityError(NodeFault):
    """Two processes run with one party's identity, such as a copied machine: stop one of them."""


class UnreachableError(NodeFault):
    """A party cannot be reached, or did not answer within its deadline."""

    wait_seconds: float = 0.0
    """Retry-after delay that the party names, 0 for none; unverified, so the caller has to cap
    it.
    """


class BrokerError(ShuffleDPError):
    """The announcement broker is unreachable or breaks its protocol.

    A broker can only delay a device, which queries the analyst instead.
    """


class BusyError(UnreachableError):
    """A party has reached its limit of calls, or waited too long for the caller's request.

    Retrying may help.
    """


class DiskError(UnreachableError):
    """A party's disk is full or fails: nothing was stored or acknowledged.

    Retry once there is space.
    """


class RoundStateError(ShuffleDPError):
    """The round's state does not allow this call."""


class UnknownRoundError(RoundStateError):
    """The round is unknown here: never prepared, already deleted, or another deployment's."""


class RoundFailed(ShuffleDPError):  # noqa: N818
    """The round ended without a result; nothing was published.

    Its budget is released only on every node's discard.
    """


class UnansweredError(RoundFailed):
    """A verified round stopped without a provable culprit: an answer is missing or inconsistent."""


class TooFewReportsError(RoundFailed):
    """Fewer reports than the round's minimum: nothing was forwarded."""


class CountMismatchError(RoundFailed):
    """The last node's batch does not match the reports that the entry node accepted."""


class LostMessagesError(CountMismatchError):
    """Messages were lost, duplicated or invalid in a round that needs all of them: no answer."""


class ExpiredTLSCertificateError(ConfigError, UnreachableError):
    """A TLS certificate, or its authority, has expired and must be renewed. Exit code 2."""


class ReceiptMissingError(NodeFault):
    """A receipt was given but the published board lacks the message: evidence of cheating."""


class AccessDenied(ShuffleDPError):  # noqa: N818
    """The caller's TLS identity has no permission for this call."""


class MalformedRequestError(ShuffleDPError):
    """The bytes of a call are not the message that its method takes."""


class CorruptLogError(ShuffleDPError):
    """The log of a corrupt node is incomplete, of another round, or contradicts another log."""


class LedgerError(ShuffleDPError):
    """The ledger's database is damaged, of another version, or contradicts itself."""


class LedgerAwayError(LedgerError, UnreachableError):
    """The ledger's database does not answer.

    Retrying is safe: every change is made once.
    """


def _walk(root: type[ShuffleDPError]) -> dict[str, type[ShuffleDPError]]:
    classes = {root.__name__: root}
    for child in root.__subclasses__():
        classes |= _walk(child)
    return classes


def codes() -> frozenset[str]:
    """Every wire code of this version: a closed set, fit for the labels of a metric."""
    return frozenset(_walk(ShuffleDPError))


def by_code(code: str) -> type[ShuffleDPError]:
    """The error class that a wire code names.

    The root class for a code that this version does not know.
    """
    return _walk(ShuffleDPError).get(code, ShuffleDPError)
