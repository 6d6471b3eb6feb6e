"""Wrong descriptions of texts, totals, columns, quantiles and maps: one helpful sentence each."""

from __future__ import annotations

import pytest

from shuffledp_core.errors import UsageError
from shuffledp_core.questions import read_question

TEXTS = 'ask = "strings"\nof = "f"\n[fields.f]\ntext = true\n'
TOTAL = 'ask = "total"\nof = "f"\n[fields.f]\nleast = 1\n'
COLUMNS = (
    'ask = "columns"\nof = ["f", "g"]\n[fields.f]\nnames = ["a", "b"]\n'
    '[fields.g]\nnames = ["c", "d"]\n'
)
QUANTILES = 'ask = "quantiles"\nof = "f"\n[fields.f]\nfrom = 0\nto = 9\nstep = 1\n'
MAP = (
    'ask = "table"\nof = ["lat", "lon"]\n[fields.lat]\nunit = "°N"\nfrom = 48.83\nto = 48.88\n'
    'step = 0.01\n[fields.lon]\nunit = "°E"\nfrom = 2.28\nto = 2.40\nstep = 0.02\n'
)
SECOND = '[fields.g]\nnames = ["a", "b"]\n'


def with_second(text: str, kind: str = "") -> str:
    """The description of a field and of a second one with names, perhaps of another kind."""
    asked = text.split('"')[1]
    return text.replace(asked, kind or asked, 1).replace('"f"', '["f", "g"]', 1) + SECOND


def five(kind: str) -> str:
    fields = "".join(f'[fields.{name}]\nnames = ["x", "y"]\n' for name in "abcde")
    return f'ask = "{kind}"\nof = ["a", "b", "c", "d", "e"]\n{fields}'


WRONG: dict[str, tuple[str, str]] = {
    "texts that are false": (TEXTS.replace("true", "false"), "text must be true, not False"),
    "texts that are a word": (TEXTS.replace("true", '"any"'), "text must be true, not 'any'"),
    "texts with names": (TEXTS + 'names = ["a", "b"]', "in one way: names"),
    "texts with edges": (TEXTS + "edges = [0, 1, 2]", "in one way: names"),
    "texts with a step": (TEXTS + "step = 1", "in one way: names"),
    "texts with amounts": (TEXTS + "least = 1", "least for amounts that are added up"),
    "texts that are counted": (TEXTS.replace("strings", "counts"), 'ask = "strings" finds'),
    "texts in a table": (with_second(TEXTS, "table"), "'f' has any text.*or give the field names"),
    "texts in columns": (with_second(TEXTS, "columns"), "'f' has any text"),
    "texts in groups": (with_second(TEXTS), "'strings' counts one field, not 2"),
    "texts for some people": (
        TEXTS + SECOND + '[where]\ng = ["a"]', "no conditions: leave `where` out",
    ),
    "texts with others": (f'others = "x"\n{TEXTS}', "every text counts: leave `others` out"),
    "texts of names": (TEXTS.replace("text = true", 'names = ["a", "b"]'), "with text = true"),
    "texts of numbers": (TEXTS.replace("text = true", "edges = [0, 1, 2]"), 'ask = "counts"'),
    "texts of amounts": (TEXTS.replace("text = true", "least = 1"), 'ask = "total"'),
    "too few bits": (TEXTS + "bits = 3", "from 4 to 13, not 3"),
    "too many bits": (TEXTS + "bits = 14", "from 4 to 13, not 14"),
    "bits as text": (TEXTS + 'bits = "8"', "bits must be a whole number, not '8'"),
    "bits as a decimal": (TEXTS + "bits = 8.5", "bits must be a whole number, not 8.5"),
    "bits that are a truth": (TEXTS + "bits = true", "not True"),
    "no columns of hashes": (TEXTS + "columns = 0", "1 to 4 columns, not 0"),
    "many columns of hashes": (TEXTS + "columns = 9", "1 to 4 columns, not 9"),
    "a short salt": (TEXTS + 'salt = "abc"', "32 lower-case hex digits"),
    "a salt in capitals": (TEXTS + f'salt = "{"AB" * 16}"', "32 lower-case hex digits"),
    "a salt that is a number": (TEXTS + "salt = 5", "in quotation marks, not 5"),
    "bits of names": (
        COLUMNS + "bits = 8", "bits belong to a field with text = true, not to names",
    ),
    "two amounts": (
        with_second(TOTAL).replace('names = ["a", "b"]', "least = 1"), "of amounts, not 2",
    ),
    "no amount": (TOTAL.replace("least = 1", 'names = ["a", "b"]'), "describe one with least"),
    "amounts that are counted": (TOTAL.replace("total", "counts"), 'sum with ask = "total"'),
    "quantiles of amounts": (TOTAL.replace("total", "quantiles"), "or describe it by edges"),
    "amounts in columns": (with_second(TOTAL, "columns"), "'f' has amounts, which are added up"),
    "a least of nothing": (TOTAL.replace("= 1", "= 0"), "least must be above 0, not 0"),
    "a least below nothing": (TOTAL.replace("= 1", "= -1"), "least must be above 0, not -1"),
    "a least that is a word": (TOTAL.replace("= 1", '= "cent"'), "least must be a number.*'cent'"),
    "a least that is a truth": (TOTAL.replace("= 1", "= true"), "least must be a number.*True"),
    "a least without end": (TOTAL.replace("= 1", "= inf"), "least must be a number.*not inf"),
    "a most near the least": (TOTAL + "most = 3", "at least 6 times least, 1, not 3: raise it"),
    "a most that is a word": (TOTAL + 'most = "much"', "most must be a number.*'much'"),
    "a most without end": (TOTAL + "most = inf", "most must be a number.*not inf"),
    "a most far away": (TOTAL + "most = 1e14", "most 100000000000000 are too far apart"),
    "a least of dust": (
        TOTAL.replace("= 1", "= 1e-9") + "most = 1e6", "least 0.000000001 .* at most 40 doublings",
    ),
    "no parts": (TOTAL + "parts = 0", "whole number from 1 to 64, not 0"),
    "many parts": (TOTAL + "parts = 65", "whole number from 1 to 64, not 65"),
    "half a part": (TOTAL + "parts = 2.5", "whole number from 1 to 64, not 2.5"),
    "parts as text": (TOTAL + 'parts = "2"', "whole number from 1 to 64, not '2'"),
    "a most alone": (TOTAL.replace("least", "most"), "least for amounts that are added up"),
    "parts of names": (COLUMNS + "parts = 2", "parts belong to least, not to names"),
    "a total in five fields": (five("total"), "'total' counts 1 to 4 fields, not 5"),
    "a total of nothing": (TOTAL.replace('"f"', "[]", 1), "'total' counts 1 to 4 fields, not 0"),
    "a total of too many groups": (
        TOTAL.replace('"f"', '["g", "h", "f"]', 1)
        + "".join(f"[fields.{name}]\nedges = {list(range(101))}\n" for name in "gh"),
        "610,000 cells, at most 100,000",
    ),
    "a sum": (TOTAL.replace('"total"', '"sum"'), 'ask = "total" adds up a field of amounts'),
    "a mean": (TOTAL.replace('"total"', '"mean"'), "divide it by the number of people"),
    "a median": (QUANTILES.replace("quantiles", "median"), 'ask = "quantiles" gives the median'),
    "percentiles": (QUANTILES.replace("quantiles", "percentiles"), 'ask = "quantiles" gives'),
    "words": (TEXTS.replace("strings", "words"), 'ask = "strings" finds'),
    "a map as a kind": (MAP.replace('"table"', '"map"'), "field in °N and a field in °E is a map"),
    "one column": (COLUMNS.replace('["f", "g"]', '"f"'), "'columns' counts 2 to 4 fields, not 1"),
    "five columns": (five("columns"), "'columns' counts 2 to 4 fields, not 5"),
    "a column twice": (COLUMNS.replace('"g"]', '"f"]'), "counted twice: leave one out"),
    "columns for some people": (COLUMNS + '[where]\nf = ["a"]', 'or ask = "table"'),
    "columns with others": (f'others = "x"\n{COLUMNS}', "such as “unknown” in each field"),
    "quantiles of names": (
        QUANTILES.replace("from = 0\nto = 9\nstep = 1", 'names = ["a", "b"]'), "by from, to and",
    ),
    "quantiles in groups": (with_second(QUANTILES), "'quantiles' counts one field, not 2"),
    "quantiles of texts": (
        QUANTILES.replace("from = 0\nto = 9\nstep = 1", "text = true"), 'ask = "strings" finds',
    ),
    "quantiles in 9,000 ranges": (
        QUANTILES.replace("step = 1", "step = 0.001"), "1,024 ranges, not 9,000: make the step",
    ),
    "a map of one field": (MAP.replace('["lat", "lon"]', '"lat"'), "2 to 4 fields, not 1"),
    "a map that lies on its side": (
        MAP.replace('["lat", "lon"]', '["lon", "lat"]'), "name the latitude first",
    ),
    "a map with two latitudes": (MAP.replace("°E", "°N"), "not °N and °N"),
    "a map beyond the pole": (
        MAP.replace("48.88", "95").replace("0.01", "1"), "'lat' in °N must be from -90 to 90",
    ),
    "a map around the world": (
        MAP.replace("2.40", "200").replace("0.02", "20"), "'lon' in °E must be from -180 to 180",
    ),
    "a map of names": (
        MAP.replace("from = 2.28\nto = 2.40\nstep = 0.02", 'names = ["west", "east"]'),
        "a map needs ranges, and 'lon' has none",
    ),
    "a map of dust": (MAP.replace("0.01", "0.00001"), "at most 1,024 ranges, not 5,000"),
    "a map of too many cells": (
        MAP.replace("0.01", "0.0001").replace("0.02", "0.0002"), "300,000 cells, at most 100,000",
    ),
    "a map with decimal commas": (MAP.replace("48.83", "48,83"), "have a point: write 48.83"),
    "a map in minutes": (MAP.replace("48.83", '"48°50"'), "'48°50' is not a number such as 12.5"),
    "a map from the east": (
        MAP.replace("from = 2.28\nto = 2.40\nstep = 0.02", "edges = [2.4, 2.3, 2.28]"),
        "edges must ascend.*2.3 stands after 2.4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_description_gives_one_sentence_that_helps(name: str) -> None:
    text, words = WRONG[name]
    with pytest.raises(UsageError, match=words) as refusal:
        read_question(text)
    sentence = str(refusal.value)
    assert "\n" not in sentence
    assert len(sentence) <= 300
    assert all(character.isprintable() for character in sentence)


def test_at_least_sixty_wrong_descriptions_of_these_kinds_are_told_apart() -> None:
    assert len(WRONG) >= 60


@pytest.mark.parametrize("right", [TEXTS, TOTAL, COLUMNS, QUANTILES, MAP])
def test_the_descriptions_are_right_before_they_are_made_wrong(right: str) -> None:
    assert read_question(right).size > 1
