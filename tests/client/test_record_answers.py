"""A device's record: the signed question finds its value, and errors never repeat it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from client_rounds import make_certificate, make_deployment

from shuffledp_client.cli import read_record
from shuffledp_client.outcomes import describe_question, locate_record
from shuffledp_core.errors import UsageError
from shuffledp_core.mechanisms import NodeHistogram
from shuffledp_core.questions import CategoryField, RangeField, RecordSchema, among, table


def test_the_certificate_finds_the_value_of_a_record(tmp_path: Path) -> None:
    schema = RecordSchema(
        {"sex": CategoryField(["f", "m"]), "age": RangeField([0, 18, 65], unit="years")}
    )
    words = table(schema, "sex", "age", where={"sex": among("m")}).wording
    deployment = make_deployment(tmp_path / "keys")
    spec = NodeHistogram(symbols=5, noise_epsilon=Fraction(1, 2), mean=4, dummies=24)
    certificate = make_certificate(deployment, spec, wording=words)
    assert locate_record(certificate, {"sex": "m", "age": 17.9}) == 2
    assert locate_record(certificate, {"sex": "f", "age": 17.9}) == 4
    lines = describe_question(certificate)
    assert "  only for sex: m" in lines
    assert lines[-1] == "  for all others, and where a field is missing: none of these"
    plain = make_certificate(deployment, spec)
    with pytest.raises(UsageError, match="no question in words") as refusal:
        locate_record(plain, {"sex": "secret"})
    assert "secret" not in str(refusal.value)


def test_a_record_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text('{"age": 37.5, "sex": null, "member": true, "city": "Bonn"}')
    assert read_record(file) == {"age": 37.5, "sex": None, "member": True, "city": "Bonn"}
    with pytest.raises(UsageError, match="leave one out"):
        read_record(file, "3")


@pytest.mark.parametrize(
    "text", ["", "[1]", '"secret"', '{"age": [1]}', '{"age": {"secret": 1}}', "{", "[" * 5000]
)
def test_what_is_no_record_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"the record .*record\.json") as refusal:
        read_record(file)
    assert "secret" not in str(refusal.value)
