"""What the summary of an import says of its examples."""

import pytest

from services.importing import summary


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("undeliverable", "could not be delivered"),
        ("declined", "payment was declined"),
        ("out_of_stock", "was out of stock"),
        ("payment_uncertain", "payment stayed unknown"),
    ],
)
def test_each_example_is_described_by_its_own_reason(reason: str, says: str) -> None:
    assert says in summary.STORIES[reason]  # all of them are shown only of a large import
