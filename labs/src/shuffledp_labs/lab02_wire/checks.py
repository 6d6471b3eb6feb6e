"""Checks of lab 2: reading lengths, a code of one length, and a user who stands out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shuffledp_core.onion.suites import SUITES
from shuffledp_labs.errors import CheckFailure, StudentException, StudentFault
from shuffledp_labs.kinds import is_list_of_bytes, kind_of
from shuffledp_labs.lab import CheckAttempt
from shuffledp_labs.lab02_wire import instances
from shuffledp_labs.lab02_wire.instances import Recording, ShuffledBoard

TAG_BYTES: Final = 16
PLAIN_BYTES: Final = 1 + TAG_BYTES
NAMED: Final = 0.99
RIGHT: Final = 0.95
_MOST_BYTES: Final = 2**16
"""Bytes that `random` gives at once."""


def check_read(attempt: CheckAttempt) -> str:
    """B-read: each sender's answer, from real envelopes of every suite."""
    clients = 0
    for number, (suite, hops) in enumerate(
        zip(instances.SUITES, instances.FIRST_HOPS, strict=True)
    ):
        recording = instances.only_ones(attempt.draws.child(f"recording {number}"), suite, hops)
        named = _infer_answers(attempt, recording)
        right = sum(named.get(client) == answer for client, answer in recording.answers.items())
        share = right / len(recording.answers)
        clients = clients + len(recording.answers)
        if share < NAMED:
            raise CheckFailure(
                f"the answer of every sender, {recording.title}: {right} of "
                f"{len(recording.answers)} named, asked are "
                f"{NAMED:.0%}; see the handout, step B, on what an envelope is made of"
            )
    return f"{len(instances.SUITES)} recordings, {clients} clients: every answer named"


def check_claims(attempt: CheckAttempt) -> str:
    """E-claims: with equal lengths, the program claims no client's answer."""
    for number, suite in enumerate(("sealed-box", "hpke", "hpke-mlkem768-x25519")):
        recording = instances.all_alike(
            attempt.draws.child(f"alike {number}"), suite, 2 + attempt.draws.below(2)
        )
        refuse_claims(_infer_answers(attempt, recording), recording.title)
    return "3 recordings of equal lengths: nothing claimed"


def refuse_claims(named: dict[Any, Any], title: str) -> None:
    """Raise `CheckFailure` if the program claims an answer from a recording of equal lengths."""
    if named:
        raise CheckFailure(
            f"claim nothing where lengths tell nothing, {title}: {len(named)} clients were given "
            "an answer; see the handout, step E"
        )


def _infer_answers(attempt: CheckAttempt, recording: Recording) -> dict[Any, Any]:
    named = attempt.program.call("infer_answers", recording.flows, recording.wire)
    if not isinstance(named, dict):
        raise CheckFailure(
            f"{recording.title}: infer_answers must return a dict from client to answer, not "
            f"{kind_of(named)}; see its docstring in work.py"
        )
    for client, answer in named.items():
        if type(answer) is not int:
            raise CheckFailure(
                f"an answer is a whole number, {recording.title}: infer_answers gave "
                f"{kind_of(answer)} for {str(client)[:40]}; see its docstring in work.py"
            )
    return named


def check_length(attempt: CheckAttempt) -> str:
    """C-length: one length for every answer, sealed in every suite."""
    messages = 5 + attempt.draws.below(4)
    for answer in range(messages + 1):
        encoded = encoded_by(attempt, answer, messages, attempt.draws.bytes)
        for suite in SUITES:
            geometry = instances.geometry_of(suite, 2, messages)
            keys = instances.route_keys(geometry)
            size = len(instances.seal(geometry, keys, encoded, attempt.draws))
            if size != geometry.envelope_bytes:
                raise CheckFailure(
                    f"one length for all answers, m = {messages}, answer {answer}, suite {suite}: "
                    f"the envelope has {abs(size - geometry.envelope_bytes)} bytes too "
                    f"{_side(size, geometry.envelope_bytes)}; see the handout, step C"
                )
    return (
        f"m = {messages}: one length of an envelope for {messages + 1} answers, in {len(SUITES)} "
        "suites"
    )


def _side(size: int, limit: int) -> str:
    return "many" if size > limit else "few"


def encoded_by(
    attempt: CheckAttempt, answer: int, messages: int, random: Callable[[int], bytes]
) -> list[bytes]:
    """Encode an answer with the student's function, and check the form of the messages.

    Raises `CheckFailure` if they are not m messages of the right length.
    """
    encoded = attempt.program.call("encode", answer, messages, _limit_requests(random))
    where = f"m = {messages}, answer {answer}"
    if not is_list_of_bytes(encoded):
        raise CheckFailure(
            f"{where}: encode must return a list of bytes, not {kind_of(encoded)}; see its "
            "docstring"
        )
    if len(encoded) != messages:
        raise CheckFailure(
            f"one length for all answers, {where}: {len(encoded)} messages, "
            f"{abs(len(encoded) - messages)} too {_side(len(encoded), messages)}; see the "
            "handout, step C"
        )
    wrong = [len(message) for message in encoded if len(message) != PLAIN_BYTES]
    if wrong:
        raise CheckFailure(
            f"one length for all messages, {where}: one of {wrong[0]} bytes; see the handout, "
            "step C"
        )
    return list(encoded)


def _limit_requests(random: Callable[[int], bytes]) -> Callable[..., bytes]:
    """Wrap a source of random bytes to limit the number of requests by the student's code."""

    def give(*arguments: Any) -> bytes:
        if (
            len(arguments) != 1
            or type(arguments[0]) is not int
            or not 0 <= arguments[0] <= _MOST_BYTES
        ):
            raise StudentFault(f"random(n) takes one whole number n, from 0 to {_MOST_BYTES:,}")
        return random(arguments[0])

    return give


def check_inverse(attempt: CheckAttempt) -> str:
    """C-inverse: decode undoes encode for every answer and refuses invalid messages.

    The messages come in mixed order, of one user and of several.
    """
    draws, messages = attempt.draws, 4 + attempt.draws.below(6)
    board: list[bytes] = []
    for answer in range(messages + 1):
        encoded = encoded_by(attempt, answer, messages, draws.bytes)
        board += encoded
        _check_decoding(
            attempt, draws.permute(encoded), answer, f"one user, m = {messages}, answer {answer}"
        )
    mixed = draws.permute(board)
    _check_decoding(
        attempt,
        mixed,
        messages * (messages + 1) // 2,
        f"the board of {messages + 1} users, m = {messages}",
    )
    for answer in (-1, messages + 1):
        _check_refusal(
            attempt,
            f"encode of answer {answer} with m = {messages}",
            "encode",
            answer,
            messages,
            draws.bytes,
        )
    for what, wrong in (
        ("17 bytes whose first is 2", b"\x02" + bytes(TAG_BYTES)),
        ("16 bytes", b"\x01" + bytes(15)),
    ):
        _check_refusal(attempt, f"decode of a board with {what}", "decode", (*mixed, wrong))
    return (
        f"m = {messages}: {messages + 1} answers there and back, mixed and together; 4 wrong "
        "inputs refused"
    )


def _check_decoding(attempt: CheckAttempt, board: Any, expected: int, title: str) -> None:
    decoded = attempt.program.call("decode", tuple(board))
    if isinstance(decoded, bool) or not isinstance(decoded, int):
        raise CheckFailure(
            f"{title}: decode must return a whole number, not {kind_of(decoded)}; see its docstring"
        )
    if decoded != expected:
        raise CheckFailure(
            f"decode undoes encode, {title}: off by {abs(decoded - expected)}; a message's first "
            "byte is the number 1 or 0, and the order of a board means nothing: see the handout, "
            "step C"
        )


def _check_refusal(attempt: CheckAttempt, title: str, function: str, *arguments: Any) -> None:
    try:
        attempt.program.call(function, *arguments)
    except StudentException as error:
        if error.kind == "ValueError":
            return
        raise CheckFailure(
            f"what is wrong raises ValueError, {title}: it raised {error.kind}; see the docstring"
        ) from None
    raise CheckFailure(
        f"what is wrong is refused, {title}: it was taken; see the docstring in work.py"
    )


class _Stream:
    """Random bytes for the student's code that can be replayed with one byte changed."""

    def __init__(self, material: bytes, flipped: int | None = None) -> None:
        changed = bytearray(material)
        if flipped is not None:
            changed[flipped] ^= 1
        self._material = bytes(changed)
        self.used = 0

    def __call__(self, size: int) -> bytes:
        """The next bytes; zeros after the end of the material."""
        piece = self._material[self.used : self.used + size]
        self.used += size
        return piece + bytes(size - len(piece))


SPARE = 64
"""Runs more than there are bits in the tags of one user."""


def check_tags(attempt: CheckAttempt) -> str:
    """C-tags: every tag depends on sixteen fresh bytes of its own, and on nothing else."""
    messages, answer = 3, 1 + attempt.draws.below(2)
    material = attempt.draws.bytes(4 * TAG_BYTES * messages)
    stream = _Stream(material)
    title = f"m = {messages}, answer {answer}"
    first = _tags(encoded_by(attempt, answer, messages, stream))
    if _tags(encoded_by(attempt, answer, messages, _Stream(material))) != first:
        raise CheckFailure(
            f"no other randomness than `random`, {title}: the same bytes gave other tags; see the "
            "docstring of encode"
        )
    if len(set(first)) != messages:
        raise CheckFailure(
            f"fresh tags, {title}: {len(set(first))} different tags on {messages} messages; see "
            "the handout, step C, on what a tag is for"
        )
    if stream.used < TAG_BYTES * messages:
        raise CheckFailure(
            f"fresh tags, {title}: {stream.used} random bytes for {messages} tags of {TAG_BYTES}, "
            "so that some tell about others; see the handout, step C, on what a tag is for"
        )
    # A byte that changes no tag was asked for and not used; where as many as the tags are long
    # count, all are fresh.
    counting = sum(
        _tags(encoded_by(attempt, answer, messages, _Stream(material, index))) != first
        for index in range(min(stream.used, len(material)))
    )
    if counting < TAG_BYTES * messages:
        raise CheckFailure(
            f"fresh tags, {title}: only {counting} of {stream.used} random bytes change any tag; "
            "see the handout, step C"
        )
    _independent(attempt, answer, messages, len(material), title)
    return (
        f"{messages} tags, {counting} bytes of `random` in them; over many runs no bit follows "
        "from others"
    )


def _independent(attempt: CheckAttempt, answer: int, messages: int, size: int, title: str) -> None:
    """Check that tags of many runs differ, and no bit is the sum of other bits.

    Of uniform tags, two are equal with probability below 2^-106, and some sum of bits is constant
    with one below 2^-63.
    """
    bits = 8 * TAG_BYTES * messages
    runs = [
        _tags(encoded_by(attempt, answer, messages, _Stream(attempt.draws.bytes(size))))
        for _ in range(bits + SPARE)
    ]
    every = [tag for tags in runs for tag in tags]
    if len(set(every)) < len(every):
        raise CheckFailure(
            f"fresh tags, {title}: {len(every) - len(set(every))} of {len(every)} tags of "
            f"{len(runs)} users were there before: they hold fewer than 128 random bits; see the "
            "handout, step C, on what a tag is for"
        )
    first, *others = (int.from_bytes(b"".join(tags), "big") for tags in runs)
    rank = rank_over_bits([first ^ other for other in others])
    if rank < bits:
        raise CheckFailure(
            f"fresh tags, {title}: {bits - rank} of their {bits} bits follow from the others, so "
            "that the messages of one user can be linked; see the handout, step C, on what a tag "
            "is for"
        )


def rank_over_bits(rows: list[int]) -> int:
    """Rank of a matrix over the field of two elements, each row the bits of a number."""
    leading: dict[int, int] = {}
    for given in rows:
        row = given
        while row and row.bit_length() in leading:
            row ^= leading[row.bit_length()]
        if row:
            leading[row.bit_length()] = row
    return len(leading)


def _tags(encoded: list[bytes]) -> list[bytes]:
    return [message[1:] for message in encoded]


def check_far(attempt: CheckAttempt) -> str:
    """D-far: in rounds that reveal the far user's value, the program finds it."""
    boards = [
        instances.telling_numbers(attempt.draws.child(f"numbers {number}")) for number in range(30)
    ]
    makers = (instances.telling_bits, instances.telling_crowd_bits)
    boards += [makers[number % 2](attempt.draws.child(f"bits {number}")) for number in range(10)]
    right, unsaid = dict.fromkeys(("numbers", "bits"), 0), 0
    for board in boards:
        verdict = _ask_far_user(attempt, board)
        unsaid += verdict is None
        right[str(board.public["shuffled"])] += verdict is board.far
    total = sum(right.values())
    if total < RIGHT * len(boards):
        raise CheckFailure(
            f"the far user told from the near one: {right['numbers']} of 30 rounds of numbers and "
            f"{right['bits']} of 10 rounds of bits, required are {RIGHT:.0%} of all; you said "
            f"None in {unsaid} of them, and each can tell; see the handout, step D"
        )
    return f"{total} of {len(boards)} rounds told; the first: {_describe_board(boards[0])}"


def check_silence(attempt: CheckAttempt) -> str:
    """D-silence: None in rounds where the best rule hardly beats a coin toss."""
    makers = (instances.silent_bits, instances.silent_numbers, instances.silent_few_bits)
    boards = [makers[number % 3](attempt.draws.child(f"silent {number}")) for number in range(10)]
    for board in boards:
        if _ask_far_user(attempt, board) is not None:
            raise CheckFailure(
                f"{board.title}: no rule can tell the two values apart here, but you named one; "
                "return None. Compare the user's distance with the noise in all that you look at: "
                "see the handout, step D"
            )
    return (
        f"{len(boards)} rounds that cannot tell: nothing claimed; the first: "
        f"{_describe_board(boards[0])}"
    )


def _describe_board(board: ShuffledBoard) -> str:
    """A line on a board: its most telling number, and the value of the user far from all others."""
    shown, value = (
        ("largest number", max(board.board))
        if board.public["shuffled"] == "numbers"
        else (
            "sum of the noisy numbers",
            sum(board.board) - int(board.public["users"]) * int(board.public["padding"]),
        )
    )
    return (
        f"{board.title}, {shown} {value:,}, the user held {board.public['far'] if board.far else 0}"
    )


def _ask_far_user(attempt: CheckAttempt, board: ShuffledBoard) -> Any:
    verdict = attempt.program.call("far_user", board.board, board.public)
    if verdict is not None and not isinstance(verdict, bool):
        raise CheckFailure(
            f"{board.title}: far_user must return True, False or None, not {kind_of(verdict)}"
        )
    return verdict
