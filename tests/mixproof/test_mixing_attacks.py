"""Every attack of docs/mixing.md is caught, and the right party is named."""

from __future__ import annotations

import pytest
from mixing_attacks import attacks, outcome

ATTACKS = attacks()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_right_party_is_named(name: str) -> None:
    attack = ATTACKS[name]
    assert outcome(attack.play) == (attack.error, attack.party)
