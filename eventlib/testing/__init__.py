"""Tests of deciders without a log, of applications in every order, and the suites that every adapter has to pass.

It knows the model, logs and the simulator. Begin with `given`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy
from eventlib.testing.given import Given, given

if TYPE_CHECKING:
    from eventlib.testing.exploring import check_invariants
    from eventlib.testing.serving import client_of

__all__ = ["Given", "check_invariants", "client_of", "given"]

if not TYPE_CHECKING:  # they bring the simulator and FastAPI, which tests of deciders do without
    __getattr__ = lazy(__name__)
