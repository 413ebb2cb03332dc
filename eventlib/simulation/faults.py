"""The faults of a simulated world: executes a plan's departures."""

from functools import partial

from eventlib.model.event import contract_of, key_of
from eventlib.model.record import Record
from eventlib.simulation.disk_faults import DiskFaults
from eventlib.simulation.invariant_monitor import OUTSIDE_SOURCE
from eventlib.simulation.log import Point, driven
from eventlib.simulation.owner import Interruption, Owner
from eventlib.simulation.pause_faults import AT_REST, DAYS_MS, PauseFaults, input_on_its_way
from eventlib.simulation.plan import Departure, Fault
from eventlib.simulation.scheduler import ScheduledMove
from eventlib.simulation.story import OUTSIDE
from eventlib.simulation.world import World

_HOUR_MS = 3_600_000
_DEADLY = 6
"""One in so many bugs takes the process down, instead of raising for a while."""
_JUMPS_MS = (60_000, _HOUR_MS, *DAYS_MS)
_MOST_LOST = 100
_SKEWS_MS = (_HOUR_MS, -_HOUR_MS, 25 * _HOUR_MS, -25 * _HOUR_MS, 1_000, 0)


class Faults:
    """Executes a plan's departures; `stop` repairs what can be repaired."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._disks = DiskFaults(world, partial(self._tell, Fault.BYTES))
        self._pauses = PauseFaults(world, partial(self._tell, Fault.PAUSE), self._jump)
        self._does = {
            Fault.TIME: self._pass_time,
            Fault.AGAIN: self._repeat_request,
            Fault.CRASH: self._crash,
            Fault.STALL: self._stall,
            Fault.ZOMBIE: self._give_up,
            Fault.BUG: self._break_handler,
            Fault.AWAY: self._take_log_away,
            Fault.FLUSH: self._flush,
            Fault.COMPACTION: self._compact,
            Fault.CLOCK: self._set_clock,
            Fault.HALT: self._halt,
            Fault.BYTES: self._corrupt,
            Fault.PAUSE: self._pause,
            Fault.LOSS: self._lose,
        }
        world.process_died = self._process_died
        world.doers |= {
            "mend": self._mend,
            "log is back": self._bring_log_back,
            "days pass": self._pass_days,
            "go on": self._resume,
        }

    def happen(self, departure: Departure) -> None:
        """Execute a departure, if it is possible now."""
        does = self._does.get(departure.fault)
        if does is not None:
            does(departure)

    def stop(self) -> None:
        """End all lasting faults."""
        world = self._world
        world.stage.broken.clear()
        world.port.refuses = False
        self._disks.stop()
        for owner in world.owners.values():
            owner.skew_ms = 0
            owner.interrupted = None
        world.add_all_moves()

    def _tell(self, fault: Fault, what: str, owner: Owner | None = None) -> None:
        self._world.faults[fault.value] += 1
        self._world.story.fault(what, OUTSIDE if owner is None else str(owner))

    def _owner(self, departure: Departure) -> Owner | None:
        owners = [owner for owner in self._world.owners.values() if owner.alive]
        return owners[departure.whom % len(owners)] if owners else None

    def _pass_time(self, departure: Departure) -> None:
        world = self._world
        due = world.next_due_ms()
        jumps = [*_JUMPS_MS, *([due - world.now_ms, due - world.now_ms + 1_000] if due is not None else [])]
        self._jump(max(1, jumps[departure.how % len(jumps)]))

    def _jump(self, by_ms: int) -> None:
        self._world.now_ms += by_ms
        self._tell(Fault.TIME, f"time passes: it is {by_ms / 1000:,.0f} s later")
        self._world.add_all_moves()

    def _halt(self, departure: Departure) -> None:
        """Pause a service until all others are at rest, and again after days have passed for them."""
        owner = self._owner(departure)
        if owner is None or owner.service.name in self._world.halted:
            return
        name = owner.service.name
        self._world.halted[name] = []
        self._tell(Fault.HALT, f"all of {name} is paused, for days")
        self._world.add(ScheduledMove("days pass", name, DAYS_MS[departure.how % len(DAYS_MS)]), after=AT_REST)

    def _pass_days(self, move: ScheduledMove) -> None:
        self._jump(move.what)
        self._world.add(ScheduledMove("go on", move.whom), after=AT_REST)

    def _resume(self, move: ScheduledMove) -> None:
        self._world.story.note(f"{move.whom} continues")
        for put_off in self._world.halted.pop(move.whom):
            self._world.add(put_off)

    def _repeat_request(self, departure: Departure) -> None:
        world = self._world
        asked = [i for i in world.asked if contract_of(type(world.requests[i])).request]
        if not asked:
            return
        number = asked[departure.whom % len(asked)]
        event, idempotency_key = world.requests[number], f"request {number}"
        others = [each for each in world.requests if type(each) is type(event) and each != event]
        what = f"{type(event).__name__} {key_of(event)} comes again"
        match departure.how % 3:
            case 1:
                idempotency_key = f"request {number}, again"
                what = f"{what}, under another id"
            case 2 if others:
                field = contract_of(type(event)).key or ""
                other = others[departure.long % len(others)]
                event = other.model_copy(update={field: getattr(event, field)})
                what = f"{what}, with another body"
        self._tell(Fault.AGAIN, what)
        world.publish(event, idempotency_key)

    def _crash(self, departure: Departure) -> None:
        owner = self._owner(departure)
        if owner is None:
            return
        match departure.how % 3:
            case 0:
                self._die(owner, departure, "between two transactions")
            case 1:
                at = Point.BEFORE_APPEND
                owner.interrupted = Interruption(at, lambda: self._die(owner, departure, at.value))
            case _:
                after = Point.AFTER_APPEND
                owner.interrupted = Interruption(after, lambda: self._die(owner, departure, after.value))

    def _die(self, owner: Owner, departure: Departure, where: str) -> None:
        world = self._world
        self._tell(Fault.CRASH, f"dies {where}", owner)
        world.end(owner)
        if world.owners.get(owner.task) is owner:
            self._replace(owner, departure.long)

    def _process_died(self, owner: Owner) -> None:
        """Let another process take over what one has died of; also one that was given up may."""
        world = self._world
        world.story.fault("takes its process down", str(owner))
        world.end(owner)
        if world.owners.get(owner.task) is owner:
            self._replace(owner, 0)

    def _replace(self, owner: Owner, which: int) -> None:
        world = self._world
        snapshots = world.disks.snapshots(owner.task, world.now_ms)
        found = snapshots[which % len(snapshots)]
        began = world.start(owner.service, owner.claim.partition, found, was_lost=True)
        world.story.note(f"restarts, {_described(found.checkpoint)}", str(began))

    def _stall(self, departure: Departure) -> None:
        """Pause an owner before its next append; it may be presumed dead meanwhile."""
        owner = self._owner(departure)
        if owner is None:
            return

        def stand_still() -> None:
            self._tell(Fault.STALL, "pauses before its append", owner)
            self._world.add(ScheduledMove("resume", owner), after=1 + departure.long)
            if departure.how % 2:
                self._take_over(owner, departure)

        owner.interrupted = Interruption(Point.BEFORE_APPEND, stand_still)

    def _give_up(self, departure: Departure) -> None:
        owner = self._owner(departure)
        if owner is not None:
            self._take_over(owner, departure)

    def _take_over(self, owner: Owner, departure: Departure) -> None:
        """Let another process take over a task whose owner is still alive."""
        if self._world.owners.get(owner.task) is owner and owner.alive:
            self._tell(Fault.ZOMBIE, "is presumed dead, but alive", owner)
            owner.is_given_up = True
            self._replace(owner, departure.long)

    def _break_handler(self, departure: Departure) -> None:
        world = self._world
        found = input_on_its_way(world, departure)
        if found is not None:
            owner, deciders, key = found
            if departure.long % _DEADLY == 0:
                where = ("handler", "effect")[departure.how % 2]
                world.stage.deadly[deciders[0], key] = where
                self._tell(Fault.DEADLY, f"each {where} of {deciders[0]} takes its process down for {key}", owner)
                return
            broken = (deciders[departure.how % len(deciders)], key)
            world.stage.broken.add(broken)
            self._tell(Fault.BUG, f"the handlers of {broken[0]} raise for {broken[1]}", owner)
            world.add(ScheduledMove("mend", None, broken), after=1 + departure.long // 4)

    def _mend(self, move: ScheduledMove) -> None:
        self._world.stage.broken.discard(move.what)

    def _take_log_away(self, departure: Departure) -> None:
        self._world.port.refuses = True
        self._tell(Fault.AWAY, "the log refuses appends")
        self._world.add(ScheduledMove("log is back"), after=1 + departure.long // 4)

    def _bring_log_back(self, _move: ScheduledMove) -> None:
        self._world.port.refuses = False

    def _flush(self, _departure: Departure) -> None:
        world = self._world
        world.faults[Fault.FLUSH.value] += 1
        for owner in world.owners.values():
            if owner.alive:
                owner.worker.task.state.flush()
                world.disks.keep(owner.task, owner.worker.task.state.store, world.now_ms)

    def _compact(self, _departure: Departure) -> None:
        self._tell(Fault.COMPACTION, "the log is compacted")
        driven(self._world.port.compact())

    def _lose(self, departure: Departure) -> None:
        """Drop requests that are there and that no task has read; only these, since all else would be decided by nobody."""
        world = self._world
        reads = world.agenda.waiting("read")
        owner, place = reads[departure.whom % len(reads)][1:] if reads else (None, ("", 0))
        readers = [each for each in world.owners.values() if each.alive and place in each.places]
        if owner is None or [*readers] != [owner] or not owner.reader.is_behind(place):
            return
        unread = world.port.written(place, owner.reader.position(place), _MOST_LOST)
        if unread and all(record.source == OUTSIDE_SOURCE for record in unread):
            handled = owner.worker.task.positions.next[place[0]]
            dropped = [each for each in world.port.drop(place, unread[-1].offset + 1) if each.offset >= handled]
            world.monitor.log_invariants.dropped += dropped
            self._tell(
                Fault.LOSS, f"retention drops {len(dropped)} records of {place[0]}/{place[1]} before they are read"
            )
            world.add_all_moves()

    def _pause(self, departure: Departure) -> None:
        owner = self._owner(departure)
        if owner is not None:
            self._pauses.begin(owner, departure)

    def _corrupt(self, departure: Departure) -> None:
        owner = self._owner(departure)
        if owner is not None and self._disks.corrupt(owner, departure):
            self._die(owner, departure, "on the machine of that disk")
            self._world.port.corruptions.clear()

    def _set_clock(self, departure: Departure) -> None:
        owner = self._owner(departure)
        if owner is not None:
            self._world.monitor.log_invariants.clocks_are_right = False
            owner.skew_ms = _SKEWS_MS[departure.how % len(_SKEWS_MS)]
            fast, journal = self._world.monitor.log_invariants.fast_ms, owner.service.journal.name
            place = journal, owner.claim.partition
            fast[place] = max(fast.get(place, 0), owner.skew_ms)
            self._tell(Fault.CLOCK, f"its clock is off by {owner.skew_ms / 1000:,.0f} s", owner)
            if owner.skew_ms > 0:
                self._publish_ahead(owner)
            self._world.add_moves(owner)

    def _publish_ahead(self, owner: Owner) -> None:
        """Let somebody with that clock write what is no event to one of the owner's inputs."""
        world, (topic, partition) = self._world, owner.places[0]
        at_ms = world.now_ms + owner.skew_ms
        driven(
            world.port.append([Record(topic, partition, -1, at_ms, b"probe", b"probe", "probe", "Probe", "outside")])
        )


def _described(checkpoint: int) -> str:
    return f"with its store as of changelog offset {checkpoint}" if checkpoint else "with an empty store"
