"""One schedule, from its first request to rest: faults begin and end, and every invariant is checked at each step."""

from collections.abc import Sequence

from eventlib.invariants import Violation
from eventlib.model.event import Event
from eventlib.model.evolution import wire_name_of
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.runtime.inputs import DAMAGE
from eventlib.runtime.parking.control import ParkedInputDiscarded, ParkedInputEdited, ParkedRetryRequested
from eventlib.runtime.parking.parked import original_of, waiting_behind
from eventlib.simulation.consumers import Consumers
from eventlib.simulation.effects import SimulatedEffects
from eventlib.simulation.faults import Faults
from eventlib.simulation.invariant_monitor import PARKED, REST, broken
from eventlib.simulation.log import driven
from eventlib.simulation.operator import Parked
from eventlib.simulation.plan import drawn_plan
from eventlib.simulation.scenario import Choices, Scenario
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.stage import BrokenHandler, Stage
from eventlib.simulation.story import Line, Story
from eventlib.simulation.world import World


class InvariantViolated(Exception):
    """A schedule broke an invariant."""

    def __init__(self, violation: Violation, story: Sequence[Line]) -> None:
        super().__init__(str(violation))
        self.violation = violation
        self.story = story


class Schedule:
    """Runs one schedule of an application; every choice in it is made by `choose`."""

    def __init__(self, stage: Stage, scenario: Scenario, orders: int, choose: Choices, *, keep_story: bool) -> None:
        self._beginning = [*scenario.beginning(orders, choose)]
        requests = [*scenario.requests(orders, choose)]
        self.plan = drawn_plan(choose, len(requests))
        self.story = Story(stage.events, stage.handles, kept=keep_story)
        self.world = World(stage, scenario, choose, self.plan, self.story)
        self.world.requests = requests
        self.world.doers |= {"ask": self._ask, "retry": self._retry}
        self._given_up: dict[str, Event | None] = {}
        self._errands = SimulatedEffects(self.world)
        self._faults = Faults(self.world)
        self._consumers = scenario.consumers()
        self._most_steps = _MOST_STEPS + _MOST_STEPS_A_REQUEST * len(requests)

    def play(self) -> None:
        """Run it to its end. Raises: InvariantViolated."""
        consumers = Consumers(self.world, self._consumers)
        try:
            self._play(consumers)
        finally:
            consumers.close()

    def _play(self, consumers: Consumers) -> None:
        for number, event in enumerate(self._beginning):
            self.world.publish(event, f"beginning {number}")
        for number in range(len(self.world.requests)):
            at = self.plan.asked.get(number, _WHEN_IDLE + number)
            self.world.agenda.add(ScheduledMove("ask", None, number), after=1 + at)
        self._do_moves()
        self._errands.stop_faults()
        for _ in range(_ROUNDS):
            self._faults.stop()  # each time: what was planned for a later step may have begun meanwhile
            self._do_moves()
            if not (self._resume_paused() or self._retry_parked() or self._let_time_pass()):
                break
        consumers.finish()
        self._check_rest()

    def _do_moves(self) -> None:
        """Do moves until none is left."""
        world = self.world
        while ready := world.agenda.ready():
            for departure in self.plan.faults.pop(world.agenda.step, ()):
                self._faults.happen(departure)
            world.do(world.agenda.take(self.plan.switches.get(world.agenda.step, 0) % ready))
            if world.monitor.violations:
                raise InvariantViolated(world.monitor.violations[0], self.story.told())
            if world.agenda.step > self._most_steps:
                raise InvariantViolated(broken(REST, "all", f"{self._most_steps} steps, and no end"), self.story.told())

    def _ask(self, move: ScheduledMove) -> None:
        self.world.asked.append(move.what)
        self.world.publish(self.world.requests[move.what], f"request {move.what}")

    def _retry(self, move: ScheduledMove) -> None:
        world = self.world
        if world.pausing.holds(move.what):
            return  # it is looked at again when all is at rest
        if move.what in world.parking.parked and world.parking.tries[move.what] < _RETRIES:
            service, codec = world.stage.played.service(move.what.service), world.log.codec
            first, is_broken = self._first(move.what, service) if move.what.decider else (None, False)
            request = world.parking.request_for(move.what, first, is_broken=is_broken)
            world.story.note(f"an operator {_DOES[type(request)]} {move.what}")
            if first is not None and isinstance(request, ParkedInputDiscarded):
                self._given_up[first.event_id] = world.log.decode(first)
            value, kind = codec.encode(request), wire_name_of(type(request))
            world.publish_request(world.parking.request(move.what, service, value, kind, world.now_ms))

    def _first(self, parked: Parked, service: Service) -> tuple[Record | None, bool]:
        """Return the input that a parked key's others wait behind, if it is one, and whether a bug has parked it."""
        note = self.world.parking.note(parked, self.world.log.codec)
        place = service.parked.name, parked.partition
        facts, record = original_of(driven(waiting_behind(note, place, self.world.port))[0])
        if DAMAGE in facts:
            return None, False  # what stands there is not what was written, and says nothing
        return record if record.topic else None, note.reason.startswith(BrokenHandler.__name__)

    def _resume_paused(self) -> bool:
        """Resume what is still paused, or was refused to go on before its service did."""
        world, pausing = self.world, self.world.pausing
        left = [*pausing.targets, *pausing.stuck]
        for target in sorted(left, key=lambda each: each.key is not None):
            pausing.targets.setdefault(target)
            world.toggle_pause(target)
        return bool(left)

    def _retry_parked(self) -> bool:
        """Retry what is still parked, a limited number of times."""
        parking = self.world.parking
        parked = [each for each in parking.parked if parking.tries[each] < _RETRIES]
        for each in parked:
            self._retry(ScheduledMove("retry", None, each))
        return bool(parked)

    def _let_time_pass(self) -> bool:
        """Advance to the next deadline, if there is one, and to what is reported late."""
        due = self.world.next_due_ms()
        is_reported = self._errands.callbacks.let_time_pass(passes=due is not None)
        if due is None:
            return is_reported
        self.world.now_ms = max(self.world.now_ms, due)
        self.world.add_all_moves()
        return True

    def _check_rest(self) -> None:
        world = self.world
        for held in world.pausing.held:
            world.monitor.violations.append(broken(PARKED, str(held), f"{held} is still paused"))
        for parked in world.parking.parked:
            world.monitor.violations.append(broken(PARKED, parked.key, str(parked)))
        world.monitor.rest(world.scenario.facts(world.outside))
        violations = [violation for violation in world.monitor.violations if not self._is_excused(violation)]
        if violations:
            raise InvariantViolated(violations[0], self.story.told())

    def _is_excused(self, violation: Violation) -> bool:
        """Return whether an operator has discarded an input that the invariant depends on, or retention has dropped it.

        An invariant about other things that the input names, such as an order's products, is excused as well.
        """
        invariants, log = self.world.monitor.log_invariants, self.world.log
        given_up = [self._given_up.get(each) for each in invariants.given_up]
        given_up += [log.decode(record) for record in invariants.dropped]
        about = [dict(event) for event in given_up if event is not None]
        return violation.invariant.at_rest and any(
            violation.invariant.key not in fields or str(fields[violation.invariant.key]) == violation.key
            for fields in about
        )


_DOES = {
    ParkedRetryRequested: "retries",
    ParkedInputEdited: "edits, without a change,",
    ParkedInputDiscarded: "discards the first input of",
}
_WHEN_IDLE = 1_000_000
_ROUNDS = 1_000
_RETRIES = 5
_MOST_STEPS = 2_000
_MOST_STEPS_A_REQUEST = 500
