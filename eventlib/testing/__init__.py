"""Tests of deciders without a log, of applications in every order, and the suites that every adapter has to pass."""

from typing import TYPE_CHECKING

from eventlib.facade import lazy
from eventlib.testing.given import Given, given

if TYPE_CHECKING:
    from eventlib.testing.exploring import check_invariants

__all__ = ["Given", "check_invariants", "given"]

if not TYPE_CHECKING:  # it brings the simulator, which tests of deciders do without
    __getattr__ = lazy(__name__, {"testing.exploring": ["check_invariants"]})
