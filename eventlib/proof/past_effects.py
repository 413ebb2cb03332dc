"""What external systems have done for a saga: the worlds in which they answered and reported what its log says."""

from collections.abc import Callable, Sequence
from functools import partial

from eventlib.model.event import contract_of
from eventlib.model.record import Record
from eventlib.runtime.effect_attempts import EffectAttempts
from eventlib.simulation.exhaustive.moment import Moment
from eventlib.simulation.exhaustive.steps import Steps


class NotExplorable(Exception):
    """A saga whose moment cannot be set up, and why: nothing is proved about it."""


def with_past_effects(steps: Steps, events: Sequence[Record], moment: Moment) -> list[Moment]:
    """Let the external systems do what they did, so that they stand as they may do now.

    A call that was given up may still arrive. Raises: NotExplorable when the scenario's ports never answer like that.
    """
    moments = [moment]
    requests = {record.event_id: record for record in events}
    for answer in events:
        request = requests.get(answer.causation_id or "")
        service = (answer.source or "").partition("/")[0]
        effect = None if request is None else steps.effects.get((service, request.type or ""))
        if request is None or effect is None or answer.type not in {contract_of(each).type for each in effect.emits}:
            continue
        number = steps.tasks.number(request)

        course = partial(steps.course, request, effect)
        if answer.type in {contract_of(each).type for each in effect.uncertain}:
            moments = [_left_open(steps, each, number, course) for each in moments]
            continue
        answered = (
            each._replace(outside=world)
            for each in moments
            for world in _worlds(steps, each.outside, number, course, answer)
        )
        moments = [*dict.fromkeys(answered)]
        if not moments:
            raise NotExplorable(f"the scenario's ports never answer {answer.type}, as was recorded")
    return _with_past_reports(steps, events, moments)


def _left_open(steps: Steps, moment: Moment, number: int, course: Callable[[], EffectAttempts]) -> Moment:
    first = [call for _, call in steps.outside.departures(moment.outside, number, course)[:1]]
    return moment._replace(flying=tuple(sorted({*moment.flying, *first})))


def _worlds(
    steps: Steps, world: int, number: int, course: Callable[[], EffectAttempts], answer: Record
) -> Sequence[int]:
    """Return the worlds after an effect that answered as was recorded; after one that answered the like, if there is none."""
    recorded = steps.tasks.event(answer)
    given = [(after, each.event) for after, each in steps.outside.attempts(world, number, course) if each is not None]
    same = [after for after, event in given if event == recorded]
    return same or [after for after, event in given if type(event) is type(recorded)][:1]


def _with_past_reports(steps: Steps, events: Sequence[Record], moments: list[Moment]) -> list[Moment]:
    """Keep the moments whose external systems report what they did report, which they do not again.

    What none of them reports is left as it is: a report of something else, or by a system that the scenario has not.
    """
    awaited = {contract_of(event).type for effect in steps.effects.values() for event in effect.awaits}
    for record in events:
        if record.type in awaited:
            moments = [found for each in moments if (found := _reported(steps, each, record))] or moments
    return moments


def _reported(steps: Steps, moment: Moment, record: Record) -> Moment | None:
    """Return a moment after a report; one that differs in a field may come again, as a second report of the same."""
    numbers = [number for number in steps.reports(moment.outside) if steps.tasks.record(number).type == record.type]
    event = steps.tasks.event(record)
    same = {number for number in numbers if steps.tasks.event(steps.tasks.record(number)) == event}
    return moment._replace(reported=tuple(sorted({*moment.reported, *same}))) if numbers else None
