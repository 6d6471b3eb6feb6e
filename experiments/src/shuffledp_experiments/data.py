"""Reads the papers' data files, if the reader has them: none are downloaded or shipped."""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shuffledp_experiments.errors import DataNeededError

MOST_BYTES: Final = 2**28
"""Largest file, unpacked."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """Description of a file in the data folder.

    Attributes:
        name: name of the file.
        columns: names of the columns that are read, all of numbers.
        about: what the file is, where it comes from, and how it differs from the paper's.
    """

    name: str
    columns: tuple[str, ...]
    about: str


FILES: Final = {
    "san francisco": DataFile(
        "gowalla_sf_box.csv.gz",
        ("lat", "lon"),
        "Gowalla check-ins in the box of Biswas et al., San Francisco (PRIVIC)",
    ),
    "paris": DataFile(
        "gowalla_paris_box.csv.gz",
        ("lat", "lon"),
        "Gowalla check-ins in the box of Biswas et al., Paris (PRIVIC)",
    ),
    "austin": DataFile(
        "austin_addresses_sparse_box.csv.gz",
        ("lat", "lon"),
        "the dispersed addresses of Athanasiou et al., Austin",
    ),
    "adult": DataFile(
        "adult_ints.csv.gz", ("education-num", "hours-per-week"), "UCI Adult, its integer columns"
    ),
    "pums": DataFile(
        "pums_ca_1000.csv", ("educ", "income"), "PUMS California, as shipped with OpenDP"
    ),
    "week": DataFile(
        "google_dp_week_data.csv",
        ("Money spent (euros)",),
        "the made-up restaurant of Google's library",
    ),
}
"""Data files, by the name that experiments give in `Experiment.data`."""


def load(folder: Path | None, name: str) -> NDArray[np.float64]:
    """Load the numbers of one file, shape (rows, columns).

    Raises:
        DataNeededError: no folder was given, or the file is missing or has other contents than
            described.
    """
    file = FILES[name]
    if folder is None:
        raise DataNeededError(
            f"this experiment needs {file.name} ({file.about}); name its folder with --data"
        )
    path = folder / file.name
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DataNeededError(
                f"{path} is longer than {MOST_BYTES // 2**20} MiB of text; it is not "
                "the expected file"
            )
        rows = csv.DictReader(content.decode("utf-8-sig").splitlines())
        return np.array(
            [[float(row[column]) for column in file.columns] for row in rows], dtype=np.float64
        )
    except OSError as error:
        raise DataNeededError(
            f"cannot read {path}, {file.about}: {error.strerror or error}"
        ) from error
    except (EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise DataNeededError(f"cannot read {path}, {file.about}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        columns = ", ".join(file.columns)
        raise DataNeededError(
            f"{path} needs numbers in the columns {columns}; it is {file.about}"
        ) from error
