"""The outcome of each attempt of an effect: its answer, another attempt after a pause, or its end."""

import random
from collections.abc import Mapping
from traceback import walk_tb
from typing import Any, NamedTuple

from pydantic import ValidationError

from eventlib.errors import ContractError, TerminalError, is_final
from eventlib.ground.ends import as_error
from eventlib.model.effect import Effect
from eventlib.model.event import Event
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.model.signatures import name_of
from eventlib.runtime.transaction import Answer

_NOT_RETRIED = "the server's answer is final, so it is not asked again"
_MANY = 5
_FAULTS = 10
_FAULT_OF_CODE = f"its code has failed {_FAULTS} times in a row, and no outage explains that"
_OF_CODE = (TypeError, AttributeError, NameError, LookupError, ValidationError)
"""Errors by which code says that it is wrong, where its own module raises them."""

_MOST_DOUBLINGS = 60  # beyond, every pause is the longest one anyway


class Pause(NamedTuple):
    """So long, with up to `jitter_s` more, but not longer than `longest_s`, it waits for its next attempt."""

    shortest_s: float
    jitter_s: float
    longest_s: float

    def drawn_s(self) -> float:
        """Return the pause with its jitter (seconds), so that many effects do not come back at the same moment."""
        return min(self.shortest_s + random.uniform(0, self.jitter_s), self.longest_s)  # noqa: S311  spreads load, hides nothing


class EffectAttempts:
    """One pending effect from its first attempt to its answer; `asking` is what each attempt asks."""

    def __init__(self, effect: Effect, request: Record, event: Event) -> None:
        self.asking = effect.ask
        self._effect = effect
        self._request = request
        self._event = event
        self._failures = 0
        self._faults = 0

    def arguments(self, ports: Mapping[str, object]) -> list[Any]:
        """Return what the next attempt is called with."""
        arguments: list[Any] = [self._event]
        if self.asking.port is not None:
            arguments.append(ports[self.asking.port])
        if self.asking.wants_meta:
            arguments.append(self._request.meta())
        return arguments

    def answered(self, answer: object) -> Answer:
        """Return what an attempt that came back means; an answer that was not declared parks the effect."""
        return self._declared(answer, self.asking.answers, f"effect {name_of(self.asking.call)} answered")

    @property
    def are_many(self) -> bool:
        """Whether so many attempts have just failed that a person is to know."""
        return self._failures == _MANY

    def failed(self, error: Exception) -> Pause | Answer:
        """Return how long to wait before the next attempt, or what follows when there is none."""
        if isinstance(error, TerminalError):
            return self.parked(error)
        if is_final(error):
            first_line = self.text_of(error).partition("\n")[0]
            return Answer(self._request.event_id, None, f"{_NOT_RETRIED}: {first_line}")
        retry = self.asking.retry
        self._failures += 1
        self._faults = self._faults + 1 if self._is_of_code(error) else 0
        if retry.attempts is None and self._faults == _FAULTS:
            text = " ".join(self.text_of(error).split())
            return Answer(self._request.event_id, None, f"{_FAULT_OF_CODE}: {text}")
        if retry.attempts is None or self._failures < retry.attempts:
            pause_s = retry.first_pause_s * 2 ** min(self._failures - 1, _MOST_DOUBLINGS)
            return Pause(min(pause_s, retry.longest_pause_s), retry.jitter_s, retry.longest_pause_s)
        return self._otherwise(error)

    def _is_of_code(self, error: Exception) -> bool:
        """Return whether an error is a fault of the effect's own module: raised there, or by Pydantic for it."""
        if not isinstance(error, _OF_CODE):
            return False
        modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
        own = [name for name in modules if not name.startswith("pydantic")]
        return own[-1:] == [self.asking.call.__module__]

    def _otherwise(self, error: Exception) -> Answer:
        otherwise = self._effect.otherwise
        if otherwise is None:
            return self.parked(error)
        try:
            answer = otherwise(self._event)
        except BaseException as raised:  # noqa: BLE001  an effect that cannot go on is parked, alone, with its reason
            return self.parked(as_error(raised))
        return self._declared(answer, self._effect.uncertain, f"otherwise={name_of(otherwise)} returned")

    def _declared(self, answer: object, declared: tuple[type[Event], ...], what: str) -> Answer:
        if type(answer) in declared:
            return Answer(self._request.event_id, answer)  # type: ignore[arg-type]  # one of these classes of events
        expected = " | ".join(each.__name__ for each in declared)
        try:
            shown = repr(answer)
        except Exception:  # noqa: BLE001  an object of the application's own may fail to describe itself
            shown = f"a {type(answer).__name__}"
        return self.parked(ContractError(f"{what} {shown}, which is not {expected}"))

    def text_of(self, error: Exception) -> str:
        """Return an error's text for logs and reasons."""
        return kept_reason(error, personal=self._effect.is_personal)

    def parked(self, error: Exception) -> Answer:
        """Return the effect as one that is parked, alone, with its reason."""
        return Answer(self._request.event_id, None, self.text_of(error))
