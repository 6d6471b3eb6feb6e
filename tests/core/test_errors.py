"""The error tree: every class can cross the wire and come back as itself."""

import pytest

from shuffledp_core import errors


def test_every_error_is_found_by_its_code() -> None:
    classes = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ShuffleDPError)
    ]
    assert len(classes) > 20
    for kind in classes:
        assert errors.by_code(kind.__name__) is kind
    assert errors.by_code("FromTheFuture") is errors.ShuffleDPError


def test_refusals_and_usage_have_their_exit_codes() -> None:
    assert errors.UsageError.exit_code == 2
    assert errors.BudgetExceeded.exit_code == 3
    assert errors.BadBatchError.exit_code == 1


@pytest.mark.parametrize(
    "text", ["x" * 1_200_000, "\x1b[2J" * 300_000, "a\nb\u2028c\x00", "\udcff", "ε ≤ 1"]
)
def test_a_message_is_one_printable_line_of_bounded_length_whoever_wrote_it(text: str) -> None:
    for kind in (errors.ShuffleDPError, errors.BadBatchError, errors.LedgerAwayError):
        said = str(kind(f"node-3: {text}"))
        assert said.startswith("node-3: ")
        assert len(said) <= errors.MAX_TEXT
        assert said.isprintable()
        assert str(kind(said)) == said
    assert str(errors.BadBatchError("ε ≤ 1")) == "ε ≤ 1"
