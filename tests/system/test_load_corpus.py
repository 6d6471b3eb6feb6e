"""Submissions on disk, without a system: a folder that cannot be used is refused, and nothing stays
open. A second."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.onion.geometry import Geometry
from shuffledp_sim.load.corpus import About, Corpus

GEOMETRY = Geometry(suite="sealed-box", hops=3, messages_per_user=3, symbol_bytes=1)
ROUND = "0" * 32


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of two users whose records are empty."""
    np.save(tmp_path / "offsets.npy", np.zeros(3, dtype=np.uint64))
    (tmp_path / "submissions").write_bytes(b"")
    (tmp_path / "corpus.json").write_bytes(msgspec.json.encode(About(ROUND, 2, GEOMETRY)))
    return tmp_path


def open_files_in(folder: Path) -> list[Path]:
    links = [
        link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()
    ]  # that of the listing is gone
    return [target for link in links if (target := link.readlink()).is_relative_to(folder)]


def test_a_corpus_that_fits_is_open_until_it_is_left(corpus: Path) -> None:
    with Corpus(corpus, ROUND, 2):
        assert corpus / "submissions" in open_files_in(corpus)
    assert corpus / "submissions" not in open_files_in(corpus)


@pytest.mark.parametrize(
    ("round_id", "users", "says"), [("1" * 32, 2, "sealed for round"), (ROUND, 3, "at most")]
)
def test_a_corpus_that_is_refused_leaves_no_file_open(
    corpus: Path, round_id: str, users: int, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        Corpus(corpus, round_id, users)
    assert open_files_in(corpus) == []


def test_a_corpus_whose_records_are_not_for_its_users_is_refused(corpus: Path) -> None:
    np.save(corpus / "offsets.npy", np.zeros(2, dtype=np.uint64))
    with pytest.raises(UsageError, match="damaged"):
        Corpus(corpus, ROUND, 2)
    (corpus / "offsets.npy").write_bytes(b"")
    with pytest.raises(UsageError, match="not a corpus"):
        Corpus(corpus, ROUND, 2)
