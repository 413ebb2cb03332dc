"""A saga that breaks an invariant on a log, as a small test: its requests break it in some order under today's code."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.invariants import Fold, Invariant, InvariantChecker
from eventlib.log.reading import records_between
from eventlib.model.event import Event, contract_of
from eventlib.model.saga import Saga
from eventlib.proof.cases import InputFilter, changed_event
from eventlib.proof.small_tests import SmallTest
from eventlib.proof.writing import as_exploration
from eventlib.queries.decoding import event_topics_there
from eventlib.replay.key_history import KeyHistory
from eventlib.simulation.scenario import Scenario, SmallCase
from eventlib.simulation.stage import Stage
from eventlib.testing.exploring import MOMENTS, explored


class BreakingCase(NamedTuple):
    """What a saga was asked for on a log, with what was asked before of what it shares, and invariants that it breaks there."""

    key: str
    case: SmallCase
    broken: Sequence[Invariant]

    def small_test(self, stage: Stage, scenario: type[Scenario]) -> SmallTest:
        """Return a test of it that is as small as it can be. Raises: ContractError when today's code breaks none within the bounds."""
        found = explored(stage, scenario, self.case, MOMENTS).violation
        if found is None:
            raise ContractError(
                f"{self.key} has broken {self.broken[0].name} on this log, and its requests break nothing under today's code in "
                f"{MOMENTS:,} moments"
            )
        wrong = found.invariant

        def breaks(case: SmallCase) -> bool:
            violation = explored(stage, scenario, case, MOMENTS).violation if case.requests else None
            return violation is not None and violation.invariant.name == wrong.name

        small = _shrunk(self.case, breaks)
        title = f"What broke an invariant on a log: `eventlib prove shrink {self.key}`."
        text = as_exploration(title, wrong, (stage.declared, scenario), small.before, small.requests)
        return SmallTest(text, sum(map(len, self.case)), sum(map(len, small)))


async def breaking_case(log: EventLog, saga: Saga, histories: Sequence[tuple[KeyHistory, InputFilter]]) -> BreakingCase:
    """Read what a saga was asked for, and from the histories of what it shares what was asked of these before."""
    roots = {each.record.event_id: each.event for each in saga.roots if each.event is not None}
    field = {contract_of(type(event)).key for event in roots.values()}
    by_events = [each for each in log.choreography.invariants if all(isinstance(one, Fold) for one in each.sources)]
    broken = [*_broken(saga, [each for each in by_events if each.key in field])]
    if not broken:
        return BreakingCase(saga.key, SmallCase(), [])
    wanted = {
        step.input.record.correlation_id or step.input.id
        for history, inputs in histories
        if inputs.among is not None
        for step in history.steps
        if step.input is not None and step.input.id not in inputs.among
    }
    before = dict[str, Event]()
    for topic in await event_topics_there(log) if wanted else ():
        for partition in range(topic.partitions):
            async for record in records_between(
                log.port, (topic.name, partition), await log.port.start(topic.name, partition)
            ):
                event = await log.decode_now(record) if record.event_id in wanted and not record.causation_id else None
                if event is not None and contract_of(type(event)).key not in field:
                    before[record.event_id] = event
    return BreakingCase(saga.key, SmallCase([*before.values()], [*roots.values()]), broken)


def _broken(saga: Saga, invariants: Sequence[Invariant]) -> Iterator[Invariant]:
    checker = InvariantChecker(invariants)
    for each in saga.events:
        if each.event is not None:
            yield from (found.invariant for found in checker.emitted(each.event, each.record.meta()))
    if saga.ended:
        yield from (found.invariant for found in checker.rest())


def _shrunk(case: SmallCase, breaks: Callable[[SmallCase], bool]) -> SmallCase:
    """Leave out events, and then parts of them, one by one, as long as the case breaks the same invariant."""
    for part in ("before", "requests"):
        for event in [*getattr(case, part)]:
            left = [each for each in getattr(case, part) if each is not event]
            case = _better(case, case._replace(**{part: left}), breaks)
        for index, event in enumerate([*getattr(case, part)]):
            for name, value in event.model_dump().items():
                if isinstance(value, list | tuple) and len(value) > 1:
                    shorter = changed_event(event, {**event.model_dump(), name: value[:1]})
                    if shorter is not None:
                        events = [*getattr(case, part)]
                        events[index] = shorter
                        case = _better(case, case._replace(**{part: events}), breaks)
    return case


def _better(case: SmallCase, tried: SmallCase, breaks: Callable[[SmallCase], bool]) -> SmallCase:
    return tried if breaks(tried) else case
