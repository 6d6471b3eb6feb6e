"""Nothing can be written in two ways, and nothing is computed for a list that is too long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mixing_attacks import stopped_at
from mixing_cheats import spoiled_user
from mixing_model import (
    CONTEXT,
    ENROLLED,
    NAMES,
    NODES,
    honest_users,
    list_signature,
    route_keys,
    signer,
    terms,
)

from shuffledp_core.errors import BadBlameError, BadListError, RoundKeyError
from shuffledp_core.mixproof import claims as claims_module
from shuffledp_core.mixproof.blame import Case, check_trace, signed_accused
from shuffledp_core.mixproof.claims import check_list
from shuffledp_core.mixproof.evidence import Trace
from shuffledp_core.mixproof.keys import check_route


def test_a_list_that_is_too_long_is_refused_before_any_claim_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims_module, "check_claim", None)  # whoever calls it breaks down
    claims = sorted((user.claim for user in honest_users()), key=lambda claim: claim.credential)
    short = replace(terms(), max_reports=len(claims) - 1)
    with pytest.raises(
        BadListError, match="node 1: the list has 8 users, but the round allows 6 to 7"
    ):
        check_list(short, claims, ENROLLED, list_signature(short, claims))


def test_node_1_has_no_opening_key_and_none_is_taken_for_it() -> None:
    keys = route_keys()[1]
    with pytest.raises(RoundKeyError, match="node 1"):
        check_route(CONTEXT, NAMES, [replace(keys[0], opening=keys[1].opening), *keys[1:]])
    with pytest.raises(RoundKeyError, match="node 1"):
        check_route(CONTEXT, NAMES, [replace(keys[0], opening_proof=b"x"), *keys[1:]])


@pytest.mark.parametrize(("share", "proof"), [(bytes(32), b""), (b"", bytes(64))])
def test_the_analyst_shows_no_share(share: bytes, proof: bytes) -> None:
    world, _ = stopped_at(NODES, spoiled_user(7, NODES + 1))
    header, records = world.hops[-1].release(world.random)
    world.analyst.receive([*world.headers, header], [], records)
    (accused,) = world.analyst.accuse(world.random)
    case = Case(world.terms, world.listed, (*world.headers, header))
    check_trace(case, NODES + 1, Trace(accused))
    more = replace(accused, share=share, proof=proof)
    more = replace(more, signature=signer(NODES + 1)(signed_accused(case, NODES + 1, more)))
    with pytest.raises(BadBlameError, match="analyst: states a share"):
        check_trace(case, NODES + 1, Trace(more))
