"""The batch headers of a whole route: every node's word on how many reports went through it.

At least one node of a route is honest and signs one header a round, for the batch that it really mixed. Where all
headers name one number, that number is the honest node's. docs/protocol.md, section "Close", and
docs/adr/0004-final-certificate-rests-on-batch-headers.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from shuffledp_core.documents.models import BatchHeader, Party
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import CountMismatchError, ForeignDocumentError, RoundStateError
from shuffledp_core.keys import verify_from


def check_headers(
    headers: Sequence[Signed], route: Sequence[Party], round_id: str, messages_per_user: int, accepted: int
) -> None:
    """Whether every node of the route relayed exactly `accepted` reports; docs/protocol.md, "Close".

    1. There is one header of every node of the route, in the route's order, and no other.
    2. Each is signed by its node.
    3. Each is for this round, and for the position behind its node.
    4. Each counts `messages_per_user` records for every report.
    5. Each counts `accepted` reports.

    Raises:
        RoundStateError: step 1, headers are missing; the message names their nodes.
        DocumentError: steps 1 to 3, as its branches.
        CountMismatchError: step 4 or 5.
    """
    names = [party.name for party in route]
    signers = [header.signer for header in headers]
    missing = [name for name in names if name not in signers]  # 1
    if missing:
        raise RoundStateError(
            f"round {round_id} lacks the batch header of {', '.join(missing)}: its reports count only by the word of "
            "every node of its route; wait until all are done"
        )
    if signers != names:
        raise ForeignDocumentError(
            f"{len(signers)} batch headers, signed by {', '.join(signers)[:200]}, where the route is {', '.join(names)}"
        )
    for position, (party, signed) in enumerate(zip(route, headers, strict=True), start=1):
        header = verify_from(party, signed, BatchHeader)  # 2
        if (header.round_id, header.position) != (round_id, position + 1):  # 3
            raise ForeignDocumentError(
                f"the batch header of {party.name} is for position {header.position} of round {header.round_id[:80]}, "
                f"not for position {position + 1} of round {round_id}"
            )
        if header.records != header.users * messages_per_user:  # 4
            raise CountMismatchError(
                f"{party.name} relayed {header.records} records where {header.users} reports of {messages_per_user} "
                f"messages are {header.users * messages_per_user}"
            )
        if header.users != accepted:  # 5
            raise CountMismatchError(
                f"{party.name} signed that it relayed {header.users} reports, not {accepted}: one of the parties of "
                f"round {round_id} is wrong or lies"
            )
