"""Checks of lab 3, steps B and C, by enumerating the exact law of the student's node.

Steps D and E are in `joining`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from shuffledp_labs.errors import StudentException
from shuffledp_labs.kinds import kind_of
from shuffledp_labs.lab import CheckAttempt, CheckFailure
from shuffledp_labs.lab03_node import onions
from shuffledp_labs.lab03_node.onions import BoxKeys
from shuffledp_labs.lab03_node.relations import find_relation
from shuffledp_labs.student.pipes import scratch_folder
from shuffledp_labs.student.process import StudentProgram

WHERE_B: Final = 'read "A sealed box and its parts" in the handout'
WHERE_C: Final = 'read "What it means to hide an order" in the handout'
WHERE_LOST: Final = 'read "What a node may drop" in the handout'

UNREADABLE: Final = {"SyntaxError", "IndentationError", "TabError"}
"""What Python raises for a file that is no program."""

REAL_BATCH: Final = 24
"""Onions in a round of step D; a test compares."""

REAL_BATCHES: Final = 6
"""Of this size, whose law cannot be walked."""

CHANCE: Final = 5e-10
"""Probability that a correct program fails there."""

LARGEST_WALKED: Final = 4
"""Onions of the largest batch whose law is walked: 24 arrangements of 24 orders."""


def opens(attempt: CheckAttempt) -> str:
    """B-opens: boxes of every length that rounds have, and an empty box, open."""
    draws, lengths = attempt.draws, [0, 1, 17, 65, 113]
    lengths += [draws.integer(2, 200) for _ in range(15)]
    for length in lengths:
        keys = BoxKeys.of(draws)
        message = draws.bytes(length)
        layer = keys.seal(message, draws.bytes(32))
        try:
            opened = attempt.program.call("peel", keys.private, layer)
        except StudentException as error:
            raise CheckFailure(
                f"peel refused a genuine box of {len(layer)} bytes ({error}): look at nonce and "
                f"parts again; {WHERE_B}"
            ) from error
        if not isinstance(opened, bytes):
            raise CheckFailure(f"peel returned {_kind(opened)} where bytes are expected; {WHERE_B}")
        if opened != message:
            raise CheckFailure(
                f"peel opened a box of {len(layer)} bytes and returned {len(opened)} bytes that "
                f"are not what was sealed; {WHERE_B}"
            )
    return (
        f"{len(lengths)} boxes with 0 to {max(lengths)} bytes inside, each under a key of its "
        "own: all opened"
    )


def refuses(attempt: CheckAttempt) -> str:
    """B-refuses: layers with a flipped bit, another key, or missing bytes are refused."""
    draws = attempt.draws
    keys = BoxKeys.of(draws)
    message = draws.bytes(17)
    layer = keys.seal(message, draws.bytes(32))
    bits = 0
    for byte, bit, changed in onions.flipped_bits(layer):
        part = "ephemeral key" if byte < 32 else "tag" if byte < onions.OVERHEAD else "ciphertext"
        _must_refuse(
            attempt, keys, changed, f"a box with bit {bit} of byte {byte} flipped, in its {part},"
        )
        bits += 1
    for cut in (*range(1, 20), len(layer) - onions.OVERHEAD + 1, len(layer) - 1, len(layer)):
        _must_refuse(
            attempt, keys, layer[: len(layer) - cut], f"a box that lacks its last {cut} bytes"
        )
    _must_refuse(attempt, keys, layer + draws.bytes(1), "a box with a byte behind its end")
    _must_refuse(attempt, BoxKeys.of(draws), layer, "a box that is sealed to another key")
    return f"{bits} single flipped bits, 22 torn boxes and a stranger's: all refused"


def _must_refuse(attempt: CheckAttempt, keys: BoxKeys, layer: bytes, what: str) -> None:
    try:
        attempt.program.call("peel", keys.private, layer)
    except StudentException as error:
        if error.kind == "ValueError":
            return
        raise CheckFailure(
            f"peel raised {error.kind} for {what} where a ValueError is expected; {WHERE_B}"
        ) from error
    raise CheckFailure(f"peel did not refuse {what}, which no one sealed; {WHERE_B}")


def hides_order(attempt: CheckAttempt) -> str:
    """C-hidden: the exact law of the output is the same whichever onion holds which message."""
    for count in range(2, LARGEST_WALKED + 1):
        keys = BoxKeys.of(attempt.draws)
        messages = onions.messages_of(attempt.draws, count, 17)
        _walk(attempt, keys, messages, 0, f"{count} onions")
    _hides_real_batches(attempt)
    return (
        f"batches of 2 to {LARGEST_WALKED} onions, every assignment of messages to onions: laws "
        f"equal in rationals; {REAL_BATCHES} batches as in step D: no relation to the order of "
        "arrival"
    )


def _hides_real_batches(attempt: CheckAttempt) -> None:
    """Check batches as large as in step D, each in a fresh process.

    A program cannot distinguish them from the real round.
    """
    orders = []
    for number in range(REAL_BATCHES):
        draws = attempt.draws.child(f"real {number}")
        keys, batch, messages = onions.real_batch(draws, REAL_BATCH)
        with (
            scratch_folder() as scratch,
            StudentProgram(attempt.file, scratch, until=attempt.program.until) as program,
        ):
            leaving = program.sample("mix", keys.private, batch, coins=draws.child("coins"))
        _right_messages(leaving, messages, f"a batch of {len(batch)} onions")
        places = {message: index for index, message in enumerate(messages)}
        orders.append([places[message] for message in leaving])
    if relation := find_relation(orders, CHANCE):
        raise CheckFailure(
            f"the order in which messages leave is not hidden: in {REAL_BATCHES} batches of "
            f"{REAL_BATCH} onions {relation}; by chance that happens once in {1 / CHANCE:,.0f} "
            f"gradings; {WHERE_C}"
        )


def handles_repeats(attempt: CheckAttempt) -> str:
    """C-repeated: exactly one of each repeated onion leaves, and its position is hidden."""
    draws = attempt.draws
    for _ in range(12):
        keys = BoxKeys.of(draws)
        messages = onions.messages_of(draws, draws.integer(3, 20), 17)
        batch = [keys.seal(message, draws.bytes(32)) for message in messages]
        victims = draws.sample(range(len(batch)), draws.integer(1, 3))
        copies = [batch[victim] for victim in victims for _ in range(draws.integer(1, 4))]
        sent = draws.permute(batch + copies)
        _right_messages(
            _mix(attempt, keys, sent),
            messages,
            f"a batch of {len(batch)} onions and {len(copies)} copies",
        )
    # Apart by another onion at least, always: whoever compares neighbours only must not get through
    # by luck.
    keys = BoxKeys.of(draws)
    messages = onions.messages_of(draws, 3, 17)
    batch = [keys.seal(message, draws.bytes(32)) for message in messages]
    _right_messages(
        _mix(attempt, keys, [*batch, batch[0]]),
        messages,
        "a batch of 3 onions, the first of them again at the end,",
    )
    _walk(
        attempt,
        BoxKeys.of(draws),
        onions.messages_of(draws, 3, 17),
        1,
        "3 onions and a copy of the first",
    )
    return (
        "13 batches with copies: each onion left once; and 3 onions with a copy: laws equal in "
        "rationals"
    )


def handles_damage(attempt: CheckAttempt) -> str:
    """C-damaged: onions that fail to decrypt are left out, all others leave the node."""
    draws = attempt.draws
    for number in range(12):
        keys = BoxKeys.of(draws)
        stranger = BoxKeys.of(draws)
        width = draws.integer(17, 113)
        messages = onions.messages_of(draws, draws.integer(3, 20), width)
        batch = [keys.seal(message, draws.bytes(32)) for message in messages]
        kinds = [
            onions.DAMAGES[number % len(onions.DAMAGES)],
            *draws.sample(onions.DAMAGES, draws.below(3)),
        ]
        wrong = [onions.damage(keys, stranger, draws.bytes(width), kind, draws) for kind in kinds]
        what = f"a batch of {len(batch)} genuine onions and {len(wrong)} that do not open"
        _right_messages(_mix(attempt, keys, draws.permute(batch + wrong)), messages, what)
    return "12 batches with changed and foreign onions: those were left out, and all others went on"


def _walk(
    attempt: CheckAttempt, keys: BoxKeys, messages: Sequence[bytes], copies: int, what: str
) -> None:
    first = None
    for number, batch in enumerate(
        onions.arrangements(keys, messages, attempt.draws, copies), start=1
    ):
        law = attempt.program.law("mix", keys.private, batch)
        for value in law.of:
            _right_messages(value, messages, f"a batch of {what}")
        first = first or law
        apart = onions.distance(first, law)
        if apart:
            raise CheckFailure(
                f"the order in which messages leave is not hidden: {what}, arrangement {number} "
                f"of the same messages, total variation {_number(apart)} from the first "
                f"arrangement, where 0 is expected; {WHERE_C}"
            )


def _mix(attempt: CheckAttempt, keys: BoxKeys, batch: Sequence[bytes]) -> Any:
    try:
        return attempt.program.sample(
            "mix", keys.private, list(batch), coins=attempt.draws.child("coins")
        )
    except StudentException as error:
        if error.kind in UNREADABLE:
            raise  # no batch was seen, so that no word about batches would help
        raise CheckFailure(
            f"mix raised {error} for a batch of {len(batch)}: one user with a bad onion could "
            f"end the round for all; {WHERE_LOST}"
        ) from error


def _right_messages(leaving: Any, expected: Sequence[bytes], what: str) -> None:
    if not isinstance(leaving, tuple | list) or not all(
        isinstance(message, bytes) for message in leaving
    ):
        raise CheckFailure(
            f"mix returned {_kind(leaving)} where a list of bytes is expected; {WHERE_C}"
        )
    missing, often, strangers = onions.surplus(leaving, expected)
    if missing or often or strangers:
        raise CheckFailure(
            f"{what}: {missing} of the messages that should leave are missing, {often} leave more "
            f"than once, and {strangers} were never sealed by a user; {WHERE_LOST}"
        )


def _number(apart: Any) -> str:
    return str(apart) if not isinstance(apart, float) else f"{apart:.3g}"


def _kind(value: Any) -> str:
    return "nothing" if value is None else kind_of(value)
