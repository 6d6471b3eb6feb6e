"""Tracing of one round with its corrupt nodes' logs, and the success rate.

A round's folder holds the public documents and, of a round with corrupt nodes, their logs:

    manifest.json  result.json  roster.json  root.pub      the signed documents, and what verifies
                                                           them
    board.bin                                              the published messages, packed, in mixed
                                                           order
    corrupt/<node>/<round>.npz                             the logs
    truth.npz                                              every user's value: the simulator's, to
                                                           measure success by
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.published import BOARD
from shuffledp_adversary.evidence import DEFAULT_CONFIDENCE, clopper_pearson
from shuffledp_adversary.tracing.likelihood import guess_values
from shuffledp_adversary.tracing.links import NOBODY, JoinStep, find_rows, join_logs
from shuffledp_core.documents.digests import digest
from shuffledp_core.documents.models import Certificate, Manifest, Result
from shuffledp_core.documents.signed import Signed
from shuffledp_core.errors import ConfigError, CorruptLogError, MalformedDocumentError, UsageError
from shuffledp_core.runtime.files import read_file
from shuffledp_core.runtime.keys import read_roster, verify_from
from shuffledp_ops.rounds.report import TracedPerson
from shuffledp_shuffler.corruption import CorruptLog, read_logs
from shuffledp_sim.captured import LOGS, TRUTH


@dataclass(frozen=True)
class CapturedRound:
    """One round as its adversary sees it: logs, board and public documents.

    Attributes:
        manifest: verified.
        final: the final certificate, verified.
        board: shape (messages, bytes of one).
        logs: logs of the corrupt nodes, by position on the route.
        values: shape (users,), value of each user of node 1's log, in the order of its spool; only
            a simulation knows it, and only to measure success by. None if it or node 1's log is
            missing.
        population: shape (domain,), number of users who hold each value, which the adversary knows.
            None if unknown.
    """

    manifest: Manifest
    final: Certificate
    board: NDArray[np.uint8]
    logs: dict[int, CorruptLog]
    values: NDArray[np.int64] | None
    population: NDArray[np.int64] | None

    @property
    def nodes(self) -> int:
        """Number of nodes on the route."""
        return len(self.manifest.route)


@dataclass(frozen=True)
class TracedUsers:
    """The users whose messages were all found on the board, in the order of node 1's spool.

    Attributes:
        credentials: shape (traced, bytes of one).
        sent: shape (traced,), the randomised answer of each.
        guesses: shape (traced,), the likeliest value of each, knowing the population.
        values: shape (traced,), the true ones; None without a truth.
    """

    credentials: NDArray[np.uint8]
    sent: NDArray[np.int64]
    guesses: NDArray[np.int64]
    values: NDArray[np.int64] | None


@dataclass(frozen=True)
class TraceResult:
    """Success of an adversary with some nodes' logs.

    Attributes:
        corrupt: positions of the nodes whose logs were used.
        nodes: number of nodes on the route.
        users: number of users whose reports were mixed.
        traced: number of users all of whose messages were found on the board.
        steps: the joins on the way.
        baseline: share guessed right without any message: always the most frequent value. None
            without a truth.
        correct: users whose value was guessed, knowing the population. None without a truth.
        correct_by_place: the same, if every honest node is assumed to have kept the order of its
            batch; None without a truth, and where no sender is known.
        correct_uniform: users whose value was guessed by maximum likelihood alone, without knowing
            the population.
        confidence: confidence of `interval`.
        traced_users: the users who were traced; None if no sender is known.
    """

    corrupt: tuple[int, ...]
    nodes: int
    users: int
    traced: int
    steps: tuple[JoinStep, ...]
    baseline: float | None
    correct: int | None
    correct_by_place: int | None
    correct_uniform: int | None
    confidence: float
    traced_users: TracedUsers | None = field(repr=False)

    def people(self) -> Iterator[TracedPerson]:
        """Everyone who was traced, in the order in which node 1 accepted them."""
        if self.traced_users is None:
            return
        for index, credential in enumerate(self.traced_users.credentials):
            yield TracedPerson(
                credential=credential.tobytes().hex(),
                sent=int(self.traced_users.sent[index]),
                guess=int(self.traced_users.guesses[index]),
                value=None
                if self.traced_users.values is None
                else int(self.traced_users.values[index]),
            )

    @property
    def traced_share(self) -> float:
        """Share of users who were traced, from 0 to 1."""
        return self.traced / self.users

    @property
    def all_corrupt(self) -> bool:
        """True if no node is honest."""
        return len(self.corrupt) == self.nodes

    @property
    def success(self) -> float | None:
        """Share of users whose value was guessed."""
        return None if self.correct is None else self.correct / self.users

    @property
    def interval(self) -> tuple[float, float] | None:
        """Clopper-Pearson interval of `success`."""
        return None if self.correct is None else self.interval_of(self.correct)

    def interval_of(self, correct: int) -> tuple[float, float]:
        """Clopper-Pearson interval of the share `correct` / users."""
        return clopper_pearson(correct, self.users, self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """The fields for the report's JSON."""
        return {
            "corrupt_nodes": list(self.corrupt),
            "nodes": self.nodes,
            "traced": self.traced_share,
            "attack_success": self.success,
            "attack_interval": None if self.interval is None else list(self.interval),
            "attack_confidence": self.confidence,
            "attack_success_without_population": (
                None if self.correct_uniform is None else self.correct_uniform / self.users
            ),
            "guessing_without_messages": self.baseline,
            "joined": [[step.before, step.after, step.joined, step.records] for step in self.steps],
        }


def trace_round(
    captured: CapturedRound,
    corrupt: Collection[int] | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> TraceResult:
    """Join the logs, rebuild each user's answer, and guess the value.

    Args:
        captured: the round as the adversary sees it.
        corrupt: positions whose logs it may use; None for all that it holds.
        confidence: confidence of the interval.

    Raises:
        UsageError: a requested log is missing, or none is requested.
    """
    used = sorted(captured.logs if corrupt is None else corrupt)
    missing = [position for position in used if position not in captured.logs]
    if missing or not used:
        raise UsageError(
            f"no log of node {missing or 'any'}; there are logs of {sorted(captured.logs)}"
        )
    logs = {position: captured.logs[position] for position in used}
    users = logs[used[0]].header.users
    links = join_logs(logs, captured.board)
    traced, answers = _rebuild_answers(captured, links.senders, users)
    guesses = [_guesses(captured, traced, answers, prior) for prior in _priors(captured)]
    values, population = captured.values, captured.population
    by_place = None
    if values is not None and (links.placed != NOBODY).any():
        placed = _guesses(
            captured, *_rebuild_answers(captured, links.placed, users), _priors(captured)[0]
        )
        by_place = int((placed == values).sum())
    if values is None:
        # No user is traced without node 1, so every guess is the most frequent value: right for
        # exactly its holders.
        right = [
            None if population is None else int(population[int(np.argmax(prior))])
            for prior in _priors(captured)
        ]
    else:
        right = [int((guess == values).sum()) for guess in guesses]
    return TraceResult(
        corrupt=tuple(used),
        nodes=captured.nodes,
        users=users,
        traced=int(traced.sum()),
        steps=links.steps,
        baseline=None if population is None else int(population.max()) / users,
        correct=right[0],
        correct_by_place=by_place,
        correct_uniform=right[1],
        confidence=confidence,
        traced_users=_traced_users(logs, traced, answers, guesses[0], values),
    )


def _traced_users(
    logs: Mapping[int, CorruptLog],
    traced: NDArray[np.bool_],
    answers: NDArray[np.int64],
    guesses: NDArray[np.int64],
    values: NDArray[np.int64] | None,
) -> TracedUsers | None:
    credentials = logs[1].credentials if 1 in logs else None
    if credentials is None:
        return None
    return TracedUsers(
        credentials=credentials[traced],
        sent=answers[traced],
        guesses=guesses[traced],
        values=None if values is None else values[traced],
    )


def _rebuild_answers(
    captured: CapturedRound, senders: NDArray[np.int64], users: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Mask of the completely traced users, and each one's answer; shape (users,) each."""
    linked: NDArray[np.bool_] = senders != NOBODY
    geometry = captured.manifest.geometry
    symbols = np.zeros(len(captured.board), dtype=np.int64)
    for column in captured.board.T[: geometry.symbol_bytes]:
        symbols = (symbols << 8) | column
    linked &= (
        symbols < captured.final.mechanism.alphabet
    )  # an invalid symbol gives no answer to guess from
    # Some of a user's messages are no answer, and the likelihood knows whole answers only.
    traced = np.bincount(senders[linked], minlength=users) == geometry.messages_per_user
    linked[linked] = traced[senders[linked]]
    by_user = np.argsort(senders[linked], kind="stable")
    messages = symbols[linked][by_user].reshape(-1, geometry.messages_per_user)
    answers = np.zeros(users, dtype=np.int64)
    answers[traced] = captured.final.mechanism.read_answers(messages)
    return traced, answers


def _priors(captured: CapturedRound) -> Sequence[NDArray[np.float64]]:
    """Two priors: the population's distribution (uniform if unknown), and the uniform one."""
    uniform = np.ones(captured.final.mechanism.domain)
    return (
        uniform if captured.population is None else captured.population.astype(np.float64),
        uniform,
    )


def _guesses(
    captured: CapturedRound,
    traced: NDArray[np.bool_],
    answers: NDArray[np.int64],
    prior: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Likeliest value of each user; for untraced users, the most frequent value."""
    guesses = np.full(len(traced), int(np.argmax(prior)), dtype=np.int64)
    if traced.any():
        guesses[traced] = guess_values(captured.final.mechanism, answers[traced], prior)
    return guesses


def load_captured(folder: Path, logs: Path | None = None) -> CapturedRound:
    """Load and verify a round's folder.

    1. Manifest and result are the analyst's, of one round; the final certificate is the
       accountant's.
    2. The board has the signed digest and length.
    3. The logs are of this round, each of the node that stands at its position; the last one's
       batch is the board.

    Args:
        folder: folder of the round.
        logs: folder with the logs; None for the round's own.

    Raises:
        ConfigError: a file is missing. DocumentError: step 1 or 2. CorruptLogError: step 3.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; a round's folder is out/<round>")
    if (folder / "manifest.json").exists() and not (folder / BOARD).exists():
        raise ConfigError(
            f"round {folder} had no corrupt nodes, so there are no logs to trace with; simulate "
            "one with `shuffledp demo --corrupt 1,2,3`"
        )
    roster = read_roster(
        folder / "roster.json", read_file(folder / "root.pub", "root key").decode().strip()
    )
    manifest = verify_from(  # 1
        roster.analyst, Signed.from_bytes(read_file(folder / "manifest.json", "manifest")), Manifest
    )
    result = verify_from(
        roster.analyst, Signed.from_bytes(read_file(folder / "result.json", "result")), Result
    )
    if result.round_id != manifest.round_id or result.final_certificate is None:
        raise MalformedDocumentError(
            f"{folder}: result.json is not the result of the manifest's round, or has no "
            "certificate"
        )
    final = verify_from(roster.accountant, result.final_certificate, Certificate)
    packed = read_file(folder / BOARD, "board", manifest.most_board_bytes)  # 2
    if digest(packed) != result.board_digest:
        raise MalformedDocumentError(
            f"{folder / BOARD} does not have the digest that the analyst signed"
        )
    board = np.frombuffer(packed, dtype=np.uint8).reshape(-1, manifest.geometry.plain_bytes)
    node_logs = read_logs(logs or folder / LOGS, manifest.deployment, manifest.round_id)  # 3
    _check_logs(node_logs, manifest, result)
    truth = _truth(folder / TRUTH)
    return CapturedRound(
        manifest=manifest,
        final=final,
        board=board,
        logs=node_logs,
        values=None if truth is None else _in_spool_order(truth, node_logs),
        population=None
        if truth is None
        else np.bincount(truth[1], minlength=final.mechanism.domain),
    )


def trace_folder(folder: Path) -> TraceResult:
    """Trace a round's folder with all its logs: the `shuffledp.tracers` entry point."""
    return trace_round(load_captured(folder))


def _check_logs(logs: dict[int, CorruptLog], manifest: Manifest, result: Result) -> None:
    route = [signed.signer for signed in manifest.route]
    for position, log in logs.items():
        if not 1 <= position <= len(route) or route[position - 1] != log.header.node:
            raise CorruptLogError(
                f"the log of {log.header.node} claims position {position} of the round's route, "
                "which another node holds"
            )
        added = (len(route) - position) * log.header.dummies  # by the nodes behind
        missing = log.header.records + added - result.messages  # dropped on the way to the board
        if (
            log.header.users != result.accepted
            or missing < 0
            or (position == len(route) and missing)
        ):
            raise CorruptLogError(
                f"the log of {log.header.node} counts {log.header.records} records of "
                f"{log.header.users} users, but the result counts {result.messages} messages of "
                f"{result.accepted} users; the log is of another run"
            )
        if position == len(route) and log.header.batch != result.board_digest:
            raise CorruptLogError(
                f"the batch in the log of {log.header.node} is not the published board; the log "
                "is of another run"
            )


def _truth(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return archive["credentials"], archive["values"]
    except (OSError, EOFError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise CorruptLogError(
            f"{path} is damaged: {error}; remove it to trace without measuring success"
        ) from error


def _in_spool_order(
    truth: tuple[NDArray[np.uint8], NDArray[np.int64]], logs: dict[int, CorruptLog]
) -> NDArray[np.int64] | None:
    if 1 not in logs or logs[1].credentials is None:
        return None
    places = find_rows(logs[1].credentials, truth[0])
    if (places < 0).any():
        raise CorruptLogError(
            f"{int((places < 0).sum())} senders in node 1's log are missing from {TRUTH}"
        )
    return truth[1][places]
