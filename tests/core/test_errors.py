"""The error tree: every class can cross the wire and come back as itself."""

from shuffledp_core import errors


def test_every_error_is_found_by_its_code() -> None:
    classes = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ShuffleDPError)
    ]
    assert len(classes) > 20
    for kind in classes:
        assert errors.by_code(kind.__name__) is kind
    assert errors.by_code("FromTheFuture") is errors.ShuffleDPError


def test_refusals_and_usage_have_their_exit_codes() -> None:
    assert errors.UsageError.exit_code == 2
    assert errors.BudgetExceeded.exit_code == 3
    assert errors.BadBatchError.exit_code == 1
