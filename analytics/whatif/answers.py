"""Answers of the outside world to questions that it was never asked: the application's own effects on declared ports."""

from random import Random

from analytics.whatif.hypothesis import Model
from eventlib.errors import WiringError
from eventlib.model.effect import Effect
from eventlib.model.event import Event
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.runtime.transaction import Answer
from eventlib.simulation.log import driven
from eventlib.simulation.scenario import drawn_from

_MOST_ATTEMPTS = 100


class ModelledAnswers:
    """Runs effects on the model's ports, with their retries, in no time.

    Guarantee: the answer follows from the question, its id and the seed alone, whatever else was asked, and wherever.
    """

    def __init__(self, model: Model | None, seed: int) -> None:
        self._model = model
        self._seed = seed

    def answer(self, effect: Effect, request: Record, event: Event) -> Answer | None:
        """Return what an effect comes back with; None without a model, or when it never comes back.

        Raises: WiringError when the model lacks the port, or the method, that the effect calls.
        """
        if self._model is None:
            return None
        ports = self._model(drawn_from(Random(f"{self._seed}/{request.event_id}")))  # noqa: S311  a model, no secret
        attempts = EffectAttempts(effect, request, event)
        port = attempts.asking.port
        if port is not None and port not in ports:
            raise WiringError(
                f"the model has no port {port!r}, which answers {request.type}: add it to what it returns"
            )
        for _ in range(_MOST_ATTEMPTS):
            try:
                return attempts.answered(driven(attempts.asking.coroutine(attempts.arguments(ports))))
            except Exception as error:
                if isinstance(error, AttributeError) and port is not None and error.obj is ports[port]:
                    raise WiringError(
                        f"the model's port {port!r} has no {error.name!r}, which answers {request.type}: add it there"
                    ) from error
                follows = attempts.failed(error)
                if isinstance(follows, Answer):
                    return follows
        return None
