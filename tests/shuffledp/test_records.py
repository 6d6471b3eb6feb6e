"""Records of a CSV file: symbols by the signed words, and questions by a file's own columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from shuffledp.columns import load_column
from shuffledp.question_files import choose_mechanism, load_wording
from shuffledp.records import describe_columns, load_records
from shuffledp_core.errors import UsageError

DESCRIPTION = """
ask = "table"
of = ["sex", "hours"]
[fields.sex]
names = ["f", "m"]
[fields.hours]
edges = [0, 20.5, 40]
[fields.country]
names = ["DE", "FR"]
[where]
country = ["DE"]
"""
ROWS = (
    "country,hours,sex\nDE,0,f\nDE,20.49,m\nDE,20.5, f \nFR,1,f\nDE,,f\nDE,41,m\nDE,1\n\nDE,40,m\n"
)


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_rows_are_records_that_devices_would_hold(tmp_path: Path) -> None:
    wording = load_wording(write(tmp_path, DESCRIPTION, "question.toml"), is_sum=False)
    column = load_records(write(tmp_path, ROWS), wording, users=8)
    assert column.values.tolist() == [0, 2, 1, 4, 4, 4, 4, 3]
    assert (column.name, column.drawn_from) == ("sex, hours, country", None)
    drawn = load_records(tmp_path / "data.csv", wording, users=100, draw=True)
    assert (drawn.values.size, drawn.drawn_from) == (100, 8)
    with pytest.raises(UsageError, match="has only 8 rows"):
        load_records(tmp_path / "data.csv", wording, users=100)


def test_a_file_without_a_field_of_the_question_is_refused(tmp_path: Path) -> None:
    wording = load_wording(write(tmp_path, DESCRIPTION, "question.toml"), is_sum=False)
    with pytest.raises(UsageError, match="no column 'country'; choose one of sex, hours"):
        load_records(write(tmp_path, "sex,hours\nf,1\n"), wording, users=1)


def test_a_description_is_refused_with_its_file_and_one_sentence(tmp_path: Path) -> None:
    for text, words in {
        DESCRIPTION.replace('"table"', '"ranks"'): 'ask must be "counts", "table", ',
        "ask = ": "this is not TOML",
        "": "has no 'ask'",
    }.items():
        with pytest.raises(UsageError, match=rf"question\.toml cannot be used: .*{words}"):
            load_wording(write(tmp_path, text, "question.toml"), is_sum=False)
    with pytest.raises(UsageError, match="which a sum cannot count"):
        load_wording(write(tmp_path, DESCRIPTION, "question.toml"), is_sum=True)


def test_a_question_is_asked_with_its_own_mechanism_unless_one_is_named(tmp_path: Path) -> None:
    text = 'ask = "quantiles"\nof = "n"\n[fields.n]\nedges = [0, 1, 2]'
    file = write(tmp_path, text, "question.toml")
    assert choose_mechanism(None, file, "geo-shuffle") == "node-tree"
    assert choose_mechanism("node-histogram", file, "geo-shuffle") == "node-histogram"
    assert choose_mechanism(None, None, "geo-shuffle") == "geo-shuffle"
    words = 'id = "a"\ntext = "A?"\naxes = [{ field = "n", unit = "", symbols = { kind = "ranges", '
    file = write(tmp_path, words + 'edges = ["0", "1", "2"] } }]', "words.toml")
    assert choose_mechanism(None, file, "geo-shuffle") == "node-histogram"


def test_columns_are_described_by_what_they_hold(tmp_path: Path) -> None:
    rows = "\n".join(f"{at % 3},{at},{at * 0.37:.2f},{'xyz'[at % 3]}" for at in range(100))
    file = write(tmp_path, f"few,many,decimal,name\n{rows}\n")
    question = describe_columns(file, ["few", "many", "decimal", "name"])
    few, many, decimal, name = (axis.symbols for axis in question.wording.axes)
    assert [few.name(at, "") for at in range(few.size)] == ["0", "1", "2"]
    assert [many.name(at, "") for at in range(many.size)][:2] == ["0–20", "20–40"]
    assert decimal.name(decimal.size - 1, "") == "35–40"
    assert [name.name(at, "") for at in range(name.size)] == ["x", "y", "z"]
    # The description has a cell for every row.
    column = load_records(file, question.wording, users=100)
    assert int(column.values.max()) < question.size - 1
    assert describe_columns(file, ["name"]).shape == (3,)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["same", "same"], "2 or more names"),
        ([], "2 or more names"),
        (["a", "b\u0007"], r"U\+0007"),
        ([f"n{at}" for at in range(1025)], "at most 1,024 names"),
    ],
)
def test_a_column_that_cannot_be_counted_is_named(
    tmp_path: Path, entries: list[str], words: str
) -> None:
    file = write(tmp_path, "\n".join(("c", *entries)) + "\n")
    with pytest.raises(UsageError, match=rf"column 'c' of .*{words}.*--question"):
        describe_columns(file, ["c"])


@pytest.mark.parametrize("entries", [["-5", "100"], ["0.1", "0.2"], ["1000000", "-1000000", "7.5"]])
def test_ranges_hold_every_number_of_the_column(tmp_path: Path, entries: list[str]) -> None:
    entries = [*entries, *(str(at / 4) for at in range(60))]
    file = write(tmp_path, "\n".join(("c", *entries)) + "\n")
    question = describe_columns(file, ["c"])
    assert 2 <= question.shape[0] <= 12
    column = load_records(file, question.wording, users=len(entries))
    assert int(column.values.max()) < question.size - 1


def test_numbers_without_words_are_in_numeric_order(tmp_path: Path) -> None:
    file = write(tmp_path, "c\n10.5\n9\nabc\n-1\n2.5\n")
    column = load_column(file, "c", users=5, max_value=20, names=True)
    assert column.labels == ("-1", "2.5", "9", "10.5", "abc")
    many = write(tmp_path, "c\n0.5\n" + "\n".join(f"{at}.5" for at in range(30)))
    with pytest.raises(UsageError, match=r"count numbers in ranges .*--table"):
        load_column(many, "c", users=30, max_value=20, names=True)
