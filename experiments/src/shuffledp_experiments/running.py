"""Runs experiments in parallel; writes a CSV and a plot (PNG and PDF) for each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from shuffledp_core.errors import ConfigError
from shuffledp_core.runtime.workers import cores
from shuffledp_experiments.entry import Experiment, PaperClaim
from shuffledp_experiments.errors import DataNeededError
from shuffledp_experiments.registry import experiment
from shuffledp_experiments.table import as_csv

ENDINGS: Final = ("csv", "png", "pdf")

_STEADY: Final = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
"""Nothing of the day or of the library's version in a picture: the same rows, the same bytes."""


@dataclass(frozen=True, slots=True)
class FinishedExperiment:
    """An experiment that ran, or that lacked its data.

    Attributes:
        id: id of the experiment.
        claims: the published statements, judged.
        notes: sentences that a reader needs.
        seconds: seconds of CPU that it took; other processes on the machine do not count.
        missing: why it could not run; empty where it did.
    """

    id: str
    claims: tuple[PaperClaim, ...]
    notes: tuple[str, ...]
    seconds: float
    missing: str = ""


def reproduce(
    entries: Sequence[Experiment], out: Path, *, processes: int | None = None, **wishes: Any
) -> Iterator[FinishedExperiment]:
    """Run experiments, starting with the longest, and write their files; yield each when done.

    Args:
        entries: entries of the registry.
        out: folder of the files; made where it is missing.
        processes: number of processes at a time; None for as many as there are cores. With 1, the
            experiments run in this process.
        wishes: see `RunInputs`.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the folder {out}: {error.strerror}; choose another with --out"
        ) from error
    longest_first = sorted(entries, key=lambda entry: entry.seconds, reverse=True)
    workers = min(processes or cores(), len(entries))
    if workers <= 1:
        for entry in longest_first:
            yield reproduce_one(entry, out, **wishes)
        return
    # A fresh interpreter each: a forked one would share the locks of the progress bar's thread.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_by_id, entry.id, out, wishes) for entry in longest_first]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _by_id(name: str, out: Path, wishes: dict[str, Any]) -> FinishedExperiment:
    return reproduce_one(experiment(name), out, **wishes)


def reproduce_one(entry: Experiment, out: Path, **wishes: Any) -> FinishedExperiment:
    """Run one experiment and write out/ID.csv, .png and .pdf. Raises as `reproduce`."""
    began = time.process_time()
    try:
        result = entry.run(entry.work(**wishes))
    except DataNeededError as error:
        return FinishedExperiment(entry.id, (), (), time.process_time() - began, str(error))
    figure = entry.draw(result)
    try:
        (out / f"{entry.id}.csv").write_text(as_csv(result.rows))
        for ending, metadata in _STEADY.items():
            figure.savefig(out / f"{entry.id}.{ending}", metadata=metadata)
            # Everything has its place now: without this each format would draw the picture twice
            # more to find it again.
            figure.set_layout_engine(None)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {out}: {error.strerror}; choose another folder with --out"
        ) from error
    return FinishedExperiment(entry.id, result.claims, result.notes, time.process_time() - began)
