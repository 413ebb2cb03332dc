"""Tests of deciders without a log, and the suites that every adapter has to pass."""

from eventlib.testing.given import Given, given

__all__ = ["Given", "given"]
