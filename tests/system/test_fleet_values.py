"""The values of a fleet's users: rows of the data, or draws from them where there are more users
than rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.questions import (
    CategoryField,
    RangeField,
    RecordSchema,
    TextField,
    counts,
    strings,
    table,
)
from shuffledp_sim.users.play import FleetOptions, RecordValues, load_values


def options(data: Path, users: int, offset: int) -> FleetOptions:
    return FleetOptions(
        keys=data.parent,
        broker=None,
        population="demo",
        users=users,
        offset=offset,
        data=data,
        column=None,
        max_value=None,
        once=True,
    )


def test_a_fleet_takes_rows_while_there_are_enough_and_draws_otherwise(tmp_path: Path) -> None:
    data = tmp_path / "values.csv"
    data.write_text("visits\n" + "\n".join(map(str, range(100))))
    rows = load_values(options(data, users=60, offset=40))
    assert rows.drawn_from is None
    assert rows.values.tolist() == list(range(40, 100))
    first, second = (load_values(options(data, users=500, offset=offset)) for offset in (0, 500))
    assert (len(first.values), first.drawn_from, second.drawn_from) == (500, 100, 100)
    assert set(first.values) | set(second.values) <= set(range(100))
    both = load_values(options(data, users=1000, offset=0)).values
    assert np.concatenate([first.values, second.values]).tolist() == both.tolist()


def test_a_fleet_answers_a_question_by_group_from_its_rows(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("age,sex\n" + "\n".join(f"{age},{'fm'[age % 2]}" for age in range(40)))
    question = tmp_path / "question.toml"
    question.write_text(
        'ask = "table"\nof = ["sex", "age"]\n[fields.sex]\nnames = ["f", "m"]\n'
        "[fields.age]\nedges = [0, 18, 35]\n"
    )
    by_group = replace(options(data, users=6, offset=34), question=question)
    assert load_values(by_group).values.tolist() == [1, 3, 4, 4, 4, 4]


def test_records_answer_each_question_in_words_from_its_fields(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    data.write_text("age,sex\n" + "\n".join(f"{age},{'fm'[age % 2]}" for age in range(40)))
    schema = RecordSchema(
        {
            "sex": CategoryField(["f", "m"]),
            "age": RangeField([0, 18, 35]),
            "site": TextField(bits=4),
            "height": RangeField([0, 1, 2]),
        }
    )
    answers = RecordValues(replace(options(data, users=6, offset=34), records=True))
    assert answers.users == 6
    assert answers.of_round(counts(schema, "sex").wording).tolist() == [0, 1, 0, 1, 0, 1]
    by_group = table(schema, "sex", "age").wording
    assert answers.of_round(by_group).tolist() == [1, 3, 4, 4, 4, 4]
    for wrong, words in {
        strings(schema, "site").wording: "no column 'site'",
        counts(schema, "height").wording: "no column 'height'",
        None: "no question in words",
    }.items():
        with pytest.raises(UsageError, match=words):
            answers.of_round(wrong)


def test_records_need_a_file_and_nothing_that_chooses_a_column(tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    for changes, words in (
        ({"data": None}, "--records needs the file"),
        ({"column": "age"}, "leave --column and --question out"),
        ({"question": data}, "leave --column and --question out"),
    ):
        with pytest.raises(UsageError, match=words):
            replace(options(data, users=6, offset=0), records=True, **changes)
    with pytest.raises(UsageError, match=r"people\.csv"):
        RecordValues(replace(options(data, users=6, offset=0), records=True))
