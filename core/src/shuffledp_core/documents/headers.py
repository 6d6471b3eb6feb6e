"""Batch headers of a whole route: every node's signed count of the reports that it relayed.

At least one node of a route is honest and signs one header a round, for the batch that it really
mixed. If all headers state the same number, it is the honest node's number. docs/protocol.md,
section "Close", and docs/adr/0004-final-certificate-rests-on-batch-headers.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shuffledp_core.documents.models import BatchHeader, Party
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import (
    CountMismatchError,
    ForeignDocumentError,
    MalformedDocumentError,
    RoundStateError,
)
from shuffledp_core.runtime.keys import verify_from

MAX_HEADER_BYTES: Final = 4096
"""A header as it travels has some hundred bytes. It goes into results, so a padded one is refused.
"""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def check_headers(
    headers: Sequence[Signed],
    route: Sequence[Party],
    round_id: str,
    messages_per_user: int,
    accepted: int,
    *,
    excluding: bool = False,
    dummies_per_node: int = 0,
) -> int:
    """Check that every node relayed `accepted` reports; return the number of dropped onions.

    docs/protocol.md, "Close".

    In a verified round (`excluding`) nodes leave out users whose messages fail to decrypt;
    `accepted` users remain. Its batches contain the dummies of all nodes from the first hop on.

    1. There is one header of every node of the route, in the route's order, and no other.
    2. Each is signed by its node, no longer than a header is, and holds a digest.
    3. Each is for this round, and for the position behind its node.
    4. Each counts `messages_per_user` records for every report and `dummies_per_node` for every
       node so far (verified: for every node), less those dropped so far.
    5. Each counts `accepted` reports; where users may be excluded, no fewer, and never more than
       the one before.
    6. The number of dropped onions never falls along the route; in a verified round no node drops
       anything.

    Raises:
        RoundStateError: step 1, headers are missing; the message names their nodes.
        DocumentError: steps 1 to 3, as its branches.
        CountMismatchError: steps 4 to 6.
    """
    names = [party.name for party in route]
    signers = [header.signer for header in headers]
    missing = [name for name in names if name not in signers]  # 1
    if missing:
        raise RoundStateError(
            f"round {round_id} lacks the batch header of {', '.join(missing)}: its reports count "
            "only if every node of the route has signed them; wait until all nodes are done"
        )
    # Exact, and in order: each header is then held against the position of its own node, and none
    # speaks for another's.
    if signers != names:
        raise ForeignDocumentError(
            f"there are {len(signers)} batch headers, signed by {', '.join(signers)[:200]}, but "
            f"the route is {', '.join(names)}"
        )
    dropped, users = 0, None if excluding else accepted
    for position, (party, signed) in enumerate(zip(route, headers, strict=True), start=1):
        header = verify_from(party, signed, BatchHeader)  # 2
        check_size(party.name, len(signed.to_bytes()))
        # From here on only the last digest is compared, with the board's; free text in the others
        # would be published.
        if not _DIGEST.fullmatch(header.digest):
            raise MalformedDocumentError(
                f"the digest in the batch header of {party.name} is not a SHA-256 in hex: "
                f"{header.digest[:80]!r}"
            )
        # A genuine header of an earlier round with more reports would otherwise certify this one a
        # smaller ε.
        if (header.round_id, header.position) != (round_id, position + 1):  # 3
            raise ForeignDocumentError(
                f"the batch header of {party.name} is for position {header.position} of round "
                f"{header.round_id[:80]}, not for position {position + 1} of round {round_id}"
            )
        nodes = len(route) if excluding else position
        complete = header.users * messages_per_user + nodes * dummies_per_node
        if header.records != complete - header.dropped:  # 4
            raise CountMismatchError(
                f"{party.name} signed that it relayed {header.records} records, but "
                f"{header.users} reports of {messages_per_user} messages and {dummies_per_node} "
                f"dummies of each of {nodes} nodes, less {header.dropped} dropped ones, make "
                f"{complete}"
            )
        users = header.users if users is None else users
        if (
            not accepted <= header.users <= users
        ):  # 5: the honest node's header is one of them, whichever it is
            raise CountMismatchError(
                f"{party.name} signed that it relayed {header.users} reports, not {accepted}: at "
                f"least one party of round {round_id} is wrong or lies"
            )
        if excluding and header.dropped:  # 6
            raise CountMismatchError(
                f"{party.name} signed that {header.dropped} messages of a verified round were "
                "dropped, but no node may drop any"
            )
        # The last number is the result: if it could fall, a node could hide losses that cost the
        # certificate reports.
        if header.dropped < dropped:  # 6
            raise CountMismatchError(
                f"{party.name} signed a total of {header.dropped} dropped onions, which does not "
                f"fit the {dropped} that its predecessor signed"
            )
        dropped = header.dropped
        users = header.users
    return dropped


def check_size(name: str, length: int) -> None:
    """Raise `MalformedDocumentError` for a header of `name` that is longer than any header."""
    if length > MAX_HEADER_BYTES:
        raise MalformedDocumentError(
            f"the batch header of {name} has {length} bytes; a header has at most "
            f"{MAX_HEADER_BYTES}"
        )
