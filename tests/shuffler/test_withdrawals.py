"""A credential that was withdrawn, or has expired, lets nobody in any more.

What was accepted stays. About 15 s.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from shuffler_world import POPULATION, World

from shuffledp_core.documents.models import Credential, Withdrawals
from shuffledp_core.errors import ConfigError, UnknownCredentialError, WithdrawnCredentialError
from shuffledp_core.runtime.clock import system_clock
from shuffledp_shuffler.app import build


def publish(
    world: World, serial: int, *names: str, population: str = POPULATION, signer: str = POPULATION
) -> None:
    """Puts a list where nodes look, at once as a whole."""
    enrolment = world.deployment.enrolment_of(POPULATION)
    document = Withdrawals(
        population=population, serial=serial, issued_at=system_clock(), credentials=names
    )
    signed = (
        enrolment.sign(document)
        if signer == POPULATION
        else world.deployment.identity_of(signer).sign(document)
    )
    folder(world).mkdir(exist_ok=True)
    part = folder(world) / "part"
    part.write_bytes(signed.to_bytes())
    part.rename(folder(world) / f"{POPULATION}.json")


def folder(world: World) -> Path:
    return world.folder / "withdrawals"


async def start(world: World) -> None:
    await world.start(withdrawals=folder(world))


async def restart(world: World) -> None:
    """The entry node alone: no other one was ever asked."""
    await world.hang_up()
    await world.stop("node-1")
    await world.start("node-1", withdrawals=folder(world))


async def test_a_withdrawn_credential_is_refused_from_the_next_submission_on(world: World) -> None:
    await start(world)
    round_, user, other = await world.open(), world.user(), world.user()
    submission = world.submission(round_, user)
    publish(world, 1, submission.credential)
    with pytest.raises(WithdrawnCredentialError, match="withdrawn"):
        await world.submit(submission)
    await world.submit(world.submission(round_, other))


async def test_what_was_accepted_before_stays_and_its_receipt_is_given_again(world: World) -> None:
    await start(world)
    round_, user = await world.open(), world.user()
    submission = world.submission(round_, user)
    receipt = await world.submit(submission)
    publish(world, 1, submission.credential)
    assert await world.submit(submission) == receipt
    await world.submit(world.submission(round_))
    assert await world.close_round("node-1", round_.round_id) == 2
    later = await world.open()
    with pytest.raises(WithdrawnCredentialError):
        await world.submit(world.submission(later, user))


@pytest.mark.parametrize(
    "how", ["older", "gone", "torn", "same serial", "another signer", "another population"]
)
async def test_no_other_file_brings_a_withdrawn_credential_back(world: World, how: str) -> None:
    await start(world)
    round_ = await world.open()
    submission = world.submission(round_)
    publish(world, 2, submission.credential)
    with pytest.raises(WithdrawnCredentialError):
        await world.submit(submission)
    match how:
        case "older":
            publish(world, 1)
        case "gone":
            (folder(world) / f"{POPULATION}.json").unlink()
        case "torn":
            (folder(world) / f"{POPULATION}.json").write_text("{")
        case "same serial":
            publish(world, 2)
        case "another signer":
            publish(world, 3, signer="analyst")
        case _:
            publish(world, 3, population="another")
    with pytest.raises(WithdrawnCredentialError):
        await world.submit(submission)
    await restart(world)
    with pytest.raises(WithdrawnCredentialError):
        await world.submit(submission)
    publish(world, 3)
    await world.submit(submission)  # only a newer list of who enrols does


async def test_a_first_list_that_cannot_be_believed_stops_the_start(world: World) -> None:
    publish(world, 1, signer="analyst")
    with pytest.raises(ConfigError, match=r"cannot use the withdrawals .*demo\.json"):
        build(world.config("node-1", withdrawals=folder(world)))


async def test_a_list_that_spells_a_credential_otherwise_is_refused_and_not_read_without_it(
    world: World,
) -> None:
    """As text it names nobody, so that the credential would get in here and in no verified
    round."""
    await start(world)
    round_ = await world.open()
    submission = world.submission(round_)
    publish(world, 1, submission.credential)
    with pytest.raises(WithdrawnCredentialError):
        await world.submit(submission)
    for other in (
        submission.credential.upper(),
        f" {submission.credential}",
        submission.credential + "\n",
    ):
        publish(world, 2, other)
        with pytest.raises(WithdrawnCredentialError):  # the last good list stays
            await world.submit(submission)
        with pytest.raises(ConfigError, match=r"cannot use the withdrawals .*demo\.json"):
            build(world.config("node-2", withdrawals=folder(world)))


async def test_a_credential_counts_until_it_expires(world: World) -> None:
    await world.start()  # without any list
    round_, user = await world.open(), world.user()
    name, now = user.key.public_key().public_bytes_raw().hex(), system_clock()
    enrolment = world.deployment.enrolment_of(POPULATION)
    for ends, counts in ((now - 1, False), (now + 600_000, True)):
        user.credential = enrolment.sign(
            Credential(population=POPULATION, public_key=name, expires_at=ends)
        )
        if counts:
            await world.submit(world.submission(round_, user))
        else:
            with pytest.raises(UnknownCredentialError, match="expired"):
                await world.submit(world.submission(round_, user))
