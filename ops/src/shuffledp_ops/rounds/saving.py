"""Saves a round's documents into a folder that is tested before the round starts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shuffledp_core.errors import OutputError
from shuffledp_ops.rounds.present import write_documents, write_report
from shuffledp_ops.rounds.report import RoundReport

ROUND_BYTES: Final = 2**20
"""More than the documents and the picture of a round take: some 200 kB, and a few bytes per user.
"""


LATEST: Final = "latest"
"""Link, beside the folders of rounds, to the one that was saved last."""


@contextmanager
def writable_folder(folder: Path, option: str = "--out") -> Iterator[None]:
    """Context with a writable folder, which is created and tested before the block starts.

    The test writes as many bytes as a round's documents have. If the block fails, empty folders
    that were made for it are removed. `option` is the command line option that names the folder,
    for messages.

    Raises:
        OutputError: the folder cannot be created or written, or its disk is full.
    """
    created = [parent for parent in (folder, *folder.parents) if not os.path.exists(parent)]  # noqa: PTH110 - of any name, also too long
    try:
        _check(folder, option)
        yield
    except BaseException:
        for parent in created:
            with suppress(OSError):  # not empty: something was saved
                parent.rmdir()
        raise


def _check(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(ROUND_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise OutputError(
            f"cannot write into the folder {folder}: {error.strerror}; free space there, or name "
            f"another with {option}"
        ) from error


def show_then_save(show: Callable[[], None], save: Callable[[], None]) -> None:
    """Show the answer, then save it; save it also if showing it failed."""
    try:
        show()
    finally:
        save()


def save_round(
    report: RoundReport, folder: Path, keys: dict[str, bytes], evidence: Path | None = None
) -> None:
    """Save documents, report, page and picture in `folder`: all of them or none.

    Args:
        report: the round's outcome.
        folder: folder of the round; files of an earlier time there are replaced.
        keys: roster and root key by file name, to verify the documents later.
        evidence: a folder with the logs of the round's corrupt nodes, copied too.

    Raises:
        OSError: something could not be written; `folder` is as it was.
    """
    with _replacing(folder) as part:
        if evidence is not None:
            shutil.copytree(evidence, part, dirs_exist_ok=True)
        write_documents(report, part, keys)
        write_report(report, part)


def point_latest(folder: Path) -> None:
    """Point `latest`, next to the folder, to the folder: a link, or a file with its name.

    The replacement is atomic. If neither can be written, for instance because a folder has that
    name, `latest` stays as it is; the round is saved all the same.
    """
    latest = folder.with_name(LATEST)
    part = folder.with_name(f".{LATEST}.{folder.name}.part")
    for make in (_link, _name):
        try:
            part.unlink(missing_ok=True)
            make(part, folder.name)
            part.replace(latest)
        except OSError:
            continue
        return
    with suppress(OSError):
        part.unlink(missing_ok=True)


def _link(file: Path, name: str) -> None:
    file.symlink_to(name, target_is_directory=True)


def _name(file: Path, name: str) -> None:
    file.write_text(f"{name}\n", encoding="ascii")


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Context with a temporary folder, which replaces `folder` if the block succeeds."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        yield part
        folder.mkdir(exist_ok=True)
        for written in part.iterdir():
            target = folder / written.name
            if target.is_dir():
                shutil.rmtree(target)
            written.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
