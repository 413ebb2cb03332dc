"""A name that is nearly right is suggested; one that resembles none is not."""

import pytest

from eventlib.ground.arguments import did_you_mean


@pytest.mark.parametrize("name", ["OrderSubmited", "ordersubmitted", "OrderSubmittd"])
def test_a_name_nearly_right_is_suggested(name: str) -> None:
    assert did_you_mean(name, ["CancelSubmitted", "OrderSubmitted"]) == "did you mean OrderSubmitted? "


def test_a_name_that_resembles_none_is_not() -> None:
    assert did_you_mean("nobody", ["talk"]) == ""
    assert did_you_mean("nobody", []) == ""
