"""Let pytest explain the asserts of the public suites as it does those of tests."""

import pytest

pytest.register_assert_rewrite(
    "eventlib.testing.damage_contract",
    "eventlib.testing.log_contract",
    "eventlib.testing.ownership_contract",
    "eventlib.testing.reader_contract",
    "eventlib.testing.store_contract",
)
