"""The world of one schedule: processes that own tasks, a log between them, external systems, and a clock.

The application and the runtime in it are the real ones: deciders, tasks, workers, effects with their retries,
changelogs and restores. Their environment is simulated: which step is next, what arrives when, what the external systems
answer, which process dies where.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from eventlib.errors import DamagedRecord, OwnershipLost, RetryableError
from eventlib.eventlog import EventLog
from eventlib.ground.ends import as_error
from eventlib.log.base import Claim, TopicPartition
from eventlib.model.event import Event
from eventlib.model.kept_error import kept_reason
from eventlib.model.record import Record
from eventlib.model.service import Service
from eventlib.publication import Publication
from eventlib.queries.pauses import PauseTarget
from eventlib.runtime.committer import TaskCommitter
from eventlib.runtime.records import changelog_key, effect_key
from eventlib.runtime.restore import restored
from eventlib.runtime.task import Task
from eventlib.simulation.fake_stores import NOTHING, FakeStores, Snapshot
from eventlib.simulation.invariant_monitor import FAILURES, InvariantMonitor, broken
from eventlib.simulation.log import Point, SimulatedLog, SimulatedReader, driven
from eventlib.simulation.operator import Parked, ParkingTracker, PauseTracker
from eventlib.simulation.owner import Owner
from eventlib.simulation.plan import Plan
from eventlib.simulation.scenario import Choices, Scenario
from eventlib.simulation.scheduler import ScheduledMove, Scheduler
from eventlib.simulation.stage import BEGIN_MS, CONFIG, ProcessDied, Stage
from eventlib.simulation.story import Story

StartEffect = Callable[[Owner, Record, Event | None], bool]


class World:
    """One schedule's world; `doers` has the handler for each kind of scheduled move.

    `halted` are the services that are paused, each with the moves that wait until it continues; `faults` counts the
    faults.
    """

    def __init__(self, stage: Stage, scenario: Scenario, choose: Choices, plan: Plan, story: Story) -> None:
        self.stage = stage
        self.choose = choose
        self.plan = plan
        self.story = story
        self.now_ms = BEGIN_MS
        self.log: EventLog = stage.set(lambda: self.now_ms)
        self.port = _simulated(self.log)
        self.port.appended = self._appended
        self.agenda = Scheduler()
        self.monitor = InvariantMonitor(stage, self.log, lambda: self.now_ms)
        self.parking = ParkingTracker()
        self.pausing = PauseTracker()
        self.disks = FakeStores()
        self.scenario = scenario
        self.outside = dict(scenario.ports(choose))
        self.faults = Counter[str]()
        self.requests: list[Event] = []
        self.asked: list[int] = []
        self.owners: dict[tuple[str, int], Owner] = {}
        self.halted: dict[str, list[ScheduledMove]] = {}
        self.doers: dict[str, Callable[[ScheduledMove], None]] = {
            "read": self._read,
            "turn": self._take_turn,
            "resume": self._resume,
        }
        self.start_effect: StartEffect = _nobody
        self.process_died: Callable[[Owner], None] = lambda _: None
        self.share_taken: Callable[[Owner], None] = lambda _: None
        self._listening: dict[TopicPartition, list[Owner]] = {}
        self._added = 0
        self._started = 0

    # --- moves

    def add(self, move: ScheduledMove, after: int = 0) -> None:
        """Schedule a move next, or after a number of steps; the plan may delay it."""
        if self.agenda.add(move, after + self.plan.delays.get(self._added, 0)):
            self._added += 1

    def do(self, move: ScheduledMove) -> None:
        """Do a move; one of an owner that is gone has no effect."""
        self.now_ms += 1
        self.story.now = (self.agenda.step, self.now_ms)
        if isinstance(move.whom, Owner):
            put_off = self.halted.get(move.whom.service.name)
            if put_off is not None:
                put_off.append(move)
                return
            if not move.whom.alive:
                return
        self.doers[move.kind](move)

    def publish(self, event: Event, idempotency_key: str) -> None:
        """Publish an external event."""
        records = self.log.records_of(Publication(event, idempotency_key), self.now_ms)
        self.story.asked(records[0])
        driven(self.port.append(records))

    def publish_request(self, request: Record) -> None:
        """Publish an operator's request to a service's control topic."""
        driven(self.port.append([request]))

    def toggle_pause(self, target: PauseTarget) -> None:
        """Publish an operator's requests to pause something, or to resume it."""
        service = self.stage.played.service(target.service)
        driven(self.port.append(self.pausing.requests(target, service, self.log.codec, self.now_ms)))

    # --- owners

    def start(
        self,
        service: Service,
        partition: int,
        finds: Snapshot = NOTHING,
        claim: Claim | None = None,
        *,
        was_lost: bool = False,
    ) -> Owner:
        """Start a new process that owns a task: it restores the state from the changelog, and continues.

        `was_lost` is whether the owner before did not give it back.
        """
        claim = claim or self.port.take_over(service.name, partition)
        self._started += 1
        owner = Owner(service, claim, self._started)
        task = self._restored(owner, finds)
        begin_effect = partial(self.start_effect, owner)
        owner.worker = TaskCommitter(
            task,
            claim,
            self.log,
            begin_effect,
            skipped_inputs=CONFIG.skipped_inputs,
            was_lost=was_lost,
            lost_owners=CONFIG.lost_owners,
        )
        refuses, self.port.refuses = self.port.refuses, False  # it waits for the log
        while driven(owner.worker.begin(self.now_ms)):
            pass
        self.port.refuses = refuses
        self.owners[owner.task] = owner
        for place in owner.places:
            self._listening.setdefault(place, []).append(owner)
        self._open(owner)
        self.add_moves(owner)
        return owner

    def _restored(self, owner: Owner, finds: Snapshot) -> Task:
        """Restore a task; to rewrite damaged states it waits for the log, and if it cannot, for a repair."""
        refuses, self.port.refuses = self.port.refuses, False
        context = self.stage.context(self.log, self.disks, self.story.note)
        self.disks.insert(owner.task, finds)
        try:
            return driven(restored(owner.service, owner.claim, context))
        except DamagedRecord as error:
            self.story.note(f"{owner} waits for a repair: {error.reason}")
            self.port.corruptions.clear()
            self.disks.insert(owner.task, finds)
            return driven(restored(owner.service, owner.claim, context))
        finally:
            self.port.refuses = refuses

    def end(self, owner: Owner) -> None:
        """Kill an owner's process; what was written to its disk stays."""
        if owner.alive:
            self.disks.keep(owner.task, owner.worker.task.state.store, self.now_ms)
            owner.end()
            for place in owner.places:
                self._listening[place].remove(owner)

    def add_moves(self, owner: Owner) -> None:
        """Schedule what an owner can do next."""
        if not owner.alive or owner.turn is not None:
            return
        behind = [place for place in owner.places if owner.reader.is_behind(place)]
        for place in behind:
            self.add(ScheduledMove("read", owner, place))
        worker = owner.worker
        goes_on = not behind and worker.suspects.has_more
        if worker.inbox or worker.answers or worker.damaged or goes_on or (not behind and self._is_due(owner)):
            self.add(ScheduledMove("turn", owner))

    def add_all_moves(self) -> None:
        """Schedule what every owner can do next."""
        for owner in [*self.owners.values()]:
            self.add_moves(owner)

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which a deadline may fall due."""
        times = [owner.worker.task.next_due_ms(self.now_ms) for owner in self.owners.values() if owner.alive]
        return min((at for at in times if at is not None), default=None)

    def _is_due(self, owner: Owner) -> bool:
        now = self.now_ms + owner.skew_ms
        due = owner.worker.task.next_due_ms(now)
        return due is not None and due <= now

    # --- turns

    def _read(self, move: ScheduledMove) -> None:
        owner: Owner = move.whom
        if owner.turn is None and owner.worker.damaged is None and owner.reader.is_behind(move.what):
            try:
                taken = owner.reader.take(move.what, self._how_many())
                for record in taken:
                    self.monitor.handed_on(record)
                owner.worker.inbox += taken
                owner.worker.gaps = owner.reader.take_lost() or owner.worker.gaps
            except DamagedRecord as error:
                owner.worker.damaged = error
                owner.reader.seek(move.what, error.resume_at)
            self._turn(owner)

    def _how_many(self) -> int:
        return self.choose.one_of("how many inputs it takes", _BATCHES) if self.plan.batches else 1

    def _take_turn(self, move: ScheduledMove) -> None:
        if move.whom.turn is None:
            self._turn(move.whom)

    def _turn(self, owner: Owner) -> None:
        self.story.turn(str(owner), owner.worker)
        self._drive(owner, owner.worker.turn(self.now_ms + owner.skew_ms))

    def _resume(self, move: ScheduledMove) -> None:
        owner: Owner = move.whom
        if owner.turn is not None:
            self.story.turn(str(owner), owner.worker, "continues")
            self._drive(owner, owner.turn)

    def _drive(self, owner: Owner, turn: Coroutine[Any, Any, None]) -> None:
        """Continue a turn until it ends, or is interrupted."""
        owner.turn = turn
        try:
            while True:
                if self._is_interrupted(owner, turn.send(None)):
                    return
        except StopIteration:
            owner.turn = None
            if owner.worker.reopens:
                self._open(owner)
        except OwnershipLost:
            self.story.note("learns that it is no longer the owner", str(owner))
            owner.turn = None
            self.end(owner)
        except ProcessDied:
            owner.turn = None
            self.process_died(owner)
            return
        except RetryableError as error:
            owner.turn = None
            self.story.note(f"cannot commit: {error}", str(owner))
            self.add(ScheduledMove("turn", owner), after=_TRIES_AGAIN_AFTER)
            return
        except BaseException as raised:  # noqa: BLE001  whatever it is, it is what the simulator looks for
            owner.turn = None
            what = as_error(raised)
            self.monitor.violations.append(broken(FAILURES, str(owner), kept_reason(what, personal=False)))
            self.end(owner)
        self.add_moves(owner)

    def _open(self, owner: Owner) -> None:
        reader = owner.worker.open()
        assert isinstance(reader, SimulatedReader)  # noqa: S101  the log is
        owner.reader = reader
        self._take_share(owner)
        owner.worker.pending.start(_ALL)

    def _take_share(self, owner: Owner) -> None:
        limits = owner.worker.task.processor.pauses.limits
        for queue in owner.queues.values():
            queue.own({owner.claim.partition: limits}, (self.now_ms - BEGIN_MS) / 1000)
        self.share_taken(owner)

    def _is_interrupted(self, owner: Owner, at: Point | None) -> bool:
        if at is None or owner.interrupted is None or owner.interrupted.at is not at:
            return False
        interruption, owner.interrupted = owner.interrupted, None
        interruption.happen()
        return True

    # --- the log

    def _appended(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        self.monitor.apply(records, offsets)
        self.story.said(records)
        changelogs = self.stage.changelogs
        for place in dict.fromkeys(record.topic_partition for record in records):
            for service in self.stage.readers.get(place[0], ()):
                if (service.name, place[1]) not in self.owners:
                    self.start(service, place[1])
            for owner in self._listening.get(place, ()):
                if owner.turn is None:
                    self.add(ScheduledMove("read", owner, place))
        for record in records:
            service_name = changelogs.get(record.topic)
            if service_name is not None:
                self._check_kept(service_name, record)
                self.pausing.apply(service_name, record, self.log.codec)
                parked = self.parking.apply(service_name, record)
                if parked is not None:
                    self._spare(parked, service_name)
                    self.add(ScheduledMove("retry", None, parked), after=_RETRIED_AFTER)

    def _spare(self, parked: Parked, service_name: str) -> None:
        """Let what is parked take no process down any more."""
        if not self.stage.deadly:
            return
        self.stage.deadly.pop((parked.decider, parked.key), None)
        owner = self.owners.get((service_name, parked.partition))
        running = None if owner is None else owner.worker.task.state.get(effect_key(parked.key))
        if running is not None:
            self.stage.deadly.pop(((running.source or "").partition("/")[2], running.subject or ""), None)

    def _check_kept(self, service_name: str, record: Record) -> None:
        owner, about = self.owners.get((service_name, record.partition)), changelog_key((record.key or b"").decode())
        if owner is not None and about.kind == "state":
            name, of = about.decider, about.key
            decider = next((each for each in owner.service.deciders if each.name == name), None)
            if decider is not None:
                self.monitor.kept(decider, of, owner.worker.task.state.entry(decider, of), record)


_ALL = 1_000_000
_BATCHES = (1, 2, 5, 100)
_RETRIED_AFTER = 30
_TRIES_AGAIN_AFTER = 3


def _simulated(log: EventLog) -> SimulatedLog:
    assert isinstance(log.port, SimulatedLog)  # noqa: S101  the stage has set it
    return log.port


def _nobody(_owner: Owner, _request: Record, _event: Event | None) -> bool:
    raise NotImplementedError
