"""Reads a population's account from the accountant, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Final

from shuffledp_core.documents.models import Party
from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.transport.rpc_errors import translate_errors
from shuffledp_proto.v1 import accountant_pb2, accountant_pb2_grpc

MOST_CHARGES: Final = 1_000_000
"""Most charges of a population that are read: the server must neither exhaust our memory nor keep
us reading without end.
"""


async def budget_pages(
    stub: accountant_pb2_grpc.AccountantAsyncStub,
    accountant: Party,
    population: str,
    *,
    after: int = 0,
    seconds: float | None = None,
) -> AsyncGenerator[accountant_pb2.GetBudgetResponse, None]:
    """Yield the pages of charges after number `after`, in order.

    The last one has no charge.

    Each page states the budget at its own time, so the last page has the newest state.

    Args:
        stub: stub of the accountant.
        accountant: name of the accountant, for errors.
        population: the population whose account is read.
        after: number of a charge; 0: all.
        seconds: deadline of each call; None: the channel's own.

    Raises:
        MalformedDocumentError: numbers that do not rise, or more than `MOST_CHARGES` charges.
        ShuffleDPError: the accountant's own errors, and `UnreachableError`.
    """
    read = 0
    while True:
        request = accountant_pb2.GetBudgetRequest(population=population, after_entry=after)
        async with translate_errors(accountant.name):
            page = await stub.GetBudget(request, timeout=seconds)
        numbers = [after, *(charge.entry for charge in page.entries)]
        read += len(page.entries)
        if read > MOST_CHARGES or any(number <= before for before, number in pairwise(numbers)):
            raise MalformedDocumentError(
                f"the accountant's pages of charges of {population!r} never end or are not in "
                "order; ask its operator"
            )
        yield page
        if not page.entries:
            return
        after = numbers[-1]
