"""An account is read page after page, to its end, and no further than an honest accountant would
take us."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

import pytest

from shuffledp_core.documents.models import Party
from shuffledp_core.errors import MalformedDocumentError
from shuffledp_ops import budget_pages as module
from shuffledp_ops.budget_pages import budget_pages
from shuffledp_proto.v1 import accountant_pb2

ACCOUNTANT = Party(
    name="accountant",
    role="accountant",
    operator="o",
    address="localhost:1",
    identity_key="00" * 32,
)


class Ledger:
    """An accountant with these charges, which it gives by pages of so many."""

    def __init__(self, charges: list[int], page: int) -> None:
        self.asked: list[int] = []
        self._charges, self._page = charges, page

    async def GetBudget(  # noqa: N802 - as gRPC names it
        self,
        request: accountant_pb2.GetBudgetRequest,
        timeout: float | None,  # noqa: ASYNC109, ARG002
    ) -> accountant_pb2.GetBudgetResponse:
        self.asked.append(request.after_entry)
        here = [number for number in self._charges if number > request.after_entry][: self._page]
        return accountant_pb2.GetBudgetResponse(
            limit_epsilon=len(self.asked),
            entries=[accountant_pb2.LedgerEntry(entry=number) for number in here],
        )


class Stuck(Ledger):
    """It says the same, whatever it is asked for."""

    async def GetBudget(  # noqa: N802
        self,
        request: accountant_pb2.GetBudgetRequest,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> accountant_pb2.GetBudgetResponse:
        return await super().GetBudget(
            accountant_pb2.GetBudgetRequest(population=request.population), timeout
        )


async def read(ledger: Ledger, after: int = 0) -> list[list[int]]:
    stub = cast("Any", ledger)
    pages = budget_pages(stub, ACCOUNTANT, "demo", after=after)
    return [[charge.entry for charge in page.entries] async for page in pages]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
async def test_all_charges_come_however_long_the_pages_are(page: int) -> None:
    ledger = Ledger([3, 4, 7, 9, 12], page)
    pages = await read(ledger)
    assert list(chain(*pages)) == [3, 4, 7, 9, 12]
    assert pages[-1] == []
    assert list(chain(*await read(Ledger([3, 4, 7, 9, 12], page), after=4))) == [7, 9, 12]


@pytest.mark.parametrize("charges", [[5, 5], [6, 5], [5]])
async def test_numbers_that_do_not_rise_end_the_reading(charges: list[int]) -> None:
    ledger = Stuck(charges, 1000)
    with pytest.raises(MalformedDocumentError, match="'demo' never end"):
        await read(ledger)
    assert len(ledger.asked) <= 2


async def test_more_charges_than_anybody_has_end_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_CHARGES", 10)
    assert list(chain(*await read(Ledger(list(range(1, 11)), 3)))) == list(range(1, 11))
    ledger = Ledger(list(range(1, 100)), 3)
    with pytest.raises(MalformedDocumentError, match="'demo' never end"):
        await read(ledger)
    assert len(ledger.asked) == 4
