"""What a key remembers of its requests: each counts once, and costs the same, whatever the key has answered before."""

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from eventlib import Choreography, Decider, Event, EventLog, Publication, Service, Topic, open_log
from eventlib.errors import WiringError
from eventlib.log.rules import stored_bytes
from eventlib.model.record import Record, key_text
from eventlib.runtime.answered import AnsweredRequests
from eventlib.runtime.keyed_state import KEPT_WITH_KEY, REMEMBERED_FOR, KeyMetadata, memory_of
from eventlib.runtime.records import REQUEST, STATE, JournalEntry, Positions, Step
from eventlib.runtime.runtime import prepare_own
from eventlib.runtime.state import TaskState
from eventlib.runtime.task import Task
from eventlib.runtime.transaction import Inputs, Transaction
from eventlib.state.base import Store
from eventlib.state.memory import MemoryStores
from eventlib.state.open import open_stores

DAY_MS = 86_400_000
REMEMBERED = 300


class OrderPlaced(Event, topic=Topic("orders", partitions=1), key="customer_id", request=True):
    customer_id: str
    amount_cents: int


class ParcelReported(
    Event, topic=Topic("reports", partitions=1), key="customer_id", request=True, once_for=timedelta(hours=1)
):
    customer_id: str


class PointsEarned(Event, topic="points", key="customer_id", final=True):
    customer_id: str
    points: int


@dataclass(frozen=True)
class Account:
    points: int = 0


def loyalty(remembered: int = REMEMBERED) -> Choreography:
    """Return README's service, with a small number of requests that a key remembers."""
    accounts = Decider("account", state=Account, key="customer_id", requests_remembered=remembered)

    @accounts.evolve
    def add(account: Account, event: Event) -> Account:
        return Account(account.points + event.points) if isinstance(event, PointsEarned) else account

    @accounts.on
    def earn(_account: Account, order: OrderPlaced) -> list[PointsEarned]:
        return [PointsEarned(customer_id=order.customer_id, points=order.amount_cents // 100)]

    @accounts.on
    def note(_account: Account, report: ParcelReported) -> list[PointsEarned]:
        return [PointsEarned(customer_id=report.customer_id, points=1)]

    return Choreography("loyalty", [Service("loyalty", deciders=[accounts], effects="all")])


class Machine:
    """A task that is fed one request a transaction, as the runtime's committer does, without a loop and a clock."""

    def __init__(self, log: EventLog, store: Store) -> None:
        self.log = log
        self.service = log.choreography.services[0]
        self.changelog = dict[bytes | None, Record]()
        self.written = list[Record]()
        self.at_ms = DAY_MS
        self._offset = 0
        self._placed = dict.fromkeys([topic.name for topic in self.service.inputs], 0)
        self.task = self._made(store)

    def _made(self, store: Store) -> Task:
        deciders = {decider.name: decider for decider in self.service.deciders}
        self.state = TaskState(store, self.log.codec, deciders, cached_entries=100)
        self.state.restore([*self.changelog.values()], self._offset)
        positions = Positions({**self._placed, self.service.control.name: 0}, self.at_ms)
        return Task(self.service, 0, self.log, self.state, positions=positions, code_version="")

    def restart(self, store: Store | None = None) -> None:
        """Let another task go on from the changelog alone."""
        self.task = self._made(store or MemoryStores().open("loyalty", 0, 1, "another"))

    def know(self, key: str, memory: KeyMetadata) -> None:
        """Write on the changelog what an earlier release remembered about a key."""
        name = f"{STATE}account/{key}".encode()
        value = self.log.codec.encode(Account())
        self._offset += 1
        self.changelog[name] = Record("loyalty.changelog", 0, -1, self.at_ms, name, value, headers=memory.headers)
        self.restart()

    def handle(self, request_id: str, event: Event | None = None) -> list[str]:
        """Handle a request in a transaction of its own; return what was noted about it in the journal."""
        event = event or OrderPlaced(customer_id="ada", amount_cents=1999)
        (record,) = self.log.records_of(Publication(event, idempotency_key=request_id), self.at_ms)
        record = record.replace(id=request_id, offset=self._placed[record.topic], partition=0)
        self._placed[record.topic] += 1
        transaction = self.task.handle(Inputs(self.at_ms, [record]))
        self._commit(transaction)
        return [step.detail for step in self._steps(transaction) if step.kind == "drop"]

    def _commit(self, transaction: Transaction) -> None:
        self.written = [*transaction.changes]
        first, self._offset = self._offset, self._offset + len(transaction.records)
        self.task.committed(transaction, range(first, self._offset))
        for record in transaction.changes:
            self.changelog.pop(record.key, None)
            if record.value is not None:
                self.changelog[record.key] = record

    def _steps(self, transaction: Transaction) -> Iterator[Step]:
        for record in transaction.journal:
            yield from self.log.codec.decode(JournalEntry, record.value or b"").steps

    @property
    def bytes_written(self) -> int:
        """How many bytes the last transaction wrote to the changelog."""
        return sum(map(stored_bytes, self.written))

    @property
    def entries(self) -> list[str]:
        """The changelog keys of requests that have entries of their own."""
        return [key for record in self.changelog.values() if (key := key_text(record)).startswith(REQUEST)]

    def memory(self, key: str = "ada") -> KeyMetadata:
        """Return what the changelog has about a key beside its state."""
        return memory_of(self.changelog[f"{STATE}account/{key}".encode()])


@pytest.fixture
async def log() -> AsyncIterator[EventLog]:
    async with opened(loyalty()) as log:
        yield log


@asynccontextmanager
async def opened(app: Choreography) -> AsyncIterator[EventLog]:
    async with open_log("memory://", app) as log:
        await log.prepare(app.services)
        await prepare_own(log, app.services)
        yield log


@pytest.fixture
def machine(log: EventLog) -> Machine:
    return Machine(log, MemoryStores().open("loyalty", 0, 1, "one"))


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count calls of functions, of Python and of C."""
    found = [0]

    def count(_frame: object, event: str, _of: object) -> None:
        found[0] += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def costs(path: Path, remembered: int, ends: Sequence[int], window: int) -> list[tuple[float, float]]:
    """Return the calls and the bytes on the changelog of a request, over those that end at numbers of requests."""
    found = []
    async with opened(loyalty(remembered)) as log:
        stores = open_stores(f"sqlite:///{path}/log.db", "")
        machine = Machine(log, stores.open("loyalty", 0, 1, log.port.log_id))
        for number in range(ends[0] - window):
            machine.handle(f"{number:06d}")
        done = ends[0] - window
        for end in ends:
            for number in range(done, end - window):
                machine.handle(f"{number:06d}")
            size = 0
            with counted() as calls:
                for number in range(end - window, end):
                    assert machine.handle(f"{number:06d}") == []
                    size += machine.bytes_written
            found.append((calls[0] / window, size / window))
            done = end
        machine.state.close()
        stores.close()
    return found


def refuse_growth(found: Sequence[tuple[float, float]]) -> None:
    """Refuse costs that grow: for each request beyond the number that is remembered one entry goes, and that is all."""
    first, *_, before, last = found
    for cost in zip(first, before, last, strict=True):
        assert max(cost) < 1.25 * cost[0], found
        assert cost[2] < 1.03 * cost[1], found


async def test_a_request_costs_the_same_whatever_its_key_has_answered(tmp_path: Path) -> None:
    refuse_growth(await costs(tmp_path, REMEMBERED, (510, 1_100, 3_000), 500))


@pytest.mark.slow
async def test_a_request_costs_the_same_after_100_000_of_its_key(tmp_path: Path) -> None:
    refuse_growth(await costs(tmp_path, 10_000, (510, 10_000, 20_000, 100_000), 500))


def test_a_request_that_comes_again_is_handled_once_also_after_a_restart(machine: Machine) -> None:
    for number in range(50):
        assert machine.handle(f"r{number}") == []
    assert len(machine.memory().answered) == KEPT_WITH_KEY
    assert len(machine.entries) == 50 - KEPT_WITH_KEY
    for _ in "running", "restarted":
        assert machine.handle("r0") == machine.handle("r41") == machine.handle("r49") == ["duplicate"]
        assert machine.handle("r0", OrderPlaced(customer_id="ada", amount_cents=1)) == ["conflict"]
        machine.restart()
    assert machine.handle("r0", OrderPlaced(customer_id="bob", amount_cents=1999)) == []


def test_keys_and_ids_that_have_slashes_are_told_apart(machine: Machine) -> None:
    for number in range(20):
        machine.handle(f"c/{number}", OrderPlaced(customer_id="a/b", amount_cents=1))
        machine.handle(f"other {number}", OrderPlaced(customer_id="a", amount_cents=1))
    assert machine.handle("b/c/0", OrderPlaced(customer_id="a", amount_cents=1)) == []
    assert machine.handle("c/0", OrderPlaced(customer_id="a/b", amount_cents=1)) == ["duplicate"]


def test_an_id_beyond_the_number_that_is_remembered_is_a_new_request_and_its_entry_is_gone(machine: Machine) -> None:
    for number in range(REMEMBERED + 5):
        machine.handle(f"r{number}")
    assert len(machine.entries) == REMEMBERED - KEPT_WITH_KEY
    assert machine.handle("r5") == ["duplicate"]
    assert machine.handle("r4") == []
    assert machine.handle("r5") == [], "one more was answered since"
    machine.restart()
    assert machine.handle("r4") == ["duplicate"]
    assert len(machine.entries) == REMEMBERED - KEPT_WITH_KEY


def test_an_id_beyond_the_newest_is_remembered_for_a_week_of_recorded_time(machine: Machine) -> None:
    for number in range(20):
        machine.handle(f"r{number}")
    machine.at_ms += REMEMBERED_FOR // timedelta(milliseconds=1) - 1
    machine.restart()
    assert machine.handle("r0") == ["duplicate"]
    machine.at_ms += 1
    assert machine.handle("r19") == ["duplicate"], "the newest stay with the key"
    assert machine.handle("r0") == []


def test_what_declares_a_time_is_remembered_for_that_also_with_an_entry_of_its_own(machine: Machine) -> None:
    report = ParcelReported(customer_id="ada")
    for number in range(20):
        machine.handle(f"r{number}", report)
    machine.at_ms += 3_599_999
    assert machine.handle("r0", report) == machine.handle("r19", report) == ["duplicate"]
    machine.at_ms += 1
    assert machine.handle("r0", report) == machine.handle("r19", report) == []


def test_entries_of_expired_requests_go_from_the_changelog_and_the_store_also_of_keys_at_rest(log: EventLog) -> None:
    store = MemoryStores().open("loyalty", 0, 1, "one")
    machine = Machine(log, store)
    for number in range(40):
        machine.handle(f"r{number}", OrderPlaced(customer_id="idle", amount_cents=1))
    machine.at_ms += 8 * DAY_MS
    machine.restart(store)
    for number in range(10):
        machine.handle(f"s{number}")
    assert [key.rsplit("/", 1)[1] for key in machine.entries] == ["s0", "s1"]
    machine.state.flush()
    assert {key.rsplit("/", 1)[1] for key, _ in store.scan(REQUEST)} == {"s0", "s1"}
    assert len([*store.scan("once/")]) == 4, "an entry by number and one by time for each"


def test_what_an_earlier_release_kept_with_the_key_moves_with_its_next_request(machine: Machine) -> None:
    body = machine_body_hash(machine)
    machine.know("ada", KeyMetadata(answered={f"r{number}": body for number in range(2 * REMEMBERED)}))
    assert machine.handle("r7") == ["duplicate"], "nothing is forgotten before"
    assert machine.handle("new") == []
    assert machine.bytes_written < 300 * REMEMBERED
    assert len(machine.entries) == REMEMBERED - KEPT_WITH_KEY
    assert machine.memory().answered_count == 2 * REMEMBERED + 1
    assert machine.handle("newer") == []
    assert machine.bytes_written < 2_000
    machine.restart()
    assert machine.handle(f"r{REMEMBERED + 2}") == machine.handle("new") == ["duplicate"]
    assert machine.handle(f"r{REMEMBERED + 1}") == []


def machine_body_hash(machine: Machine) -> str:
    machine.handle("known")
    return machine.memory().answered["known"]


def test_a_transaction_that_was_not_appended_leaves_nothing_of_its_requests(machine: Machine) -> None:
    for number in range(KEPT_WITH_KEY):
        machine.handle(f"r{number}")
    event = OrderPlaced(customer_id="ada", amount_cents=1999)
    (record,) = machine.log.records_of(Publication(event, idempotency_key="x"), machine.at_ms)
    machine.task.handle(Inputs(machine.at_ms, [record.replace(offset=KEPT_WITH_KEY, partition=0)]))
    machine.task.rolled_back()
    found = AnsweredRequests(machine.state)
    decider = machine.service.deciders[0]
    assert found.find(decider, "ada", KeyMetadata(moved={"count": 1}), "r0", machine.at_ms) is None
    assert machine.handle("r0") == ["duplicate"]


def test_a_number_of_requests_that_remembers_none_is_refused() -> None:
    with pytest.raises(WiringError, match="requests_remembered"):
        Decider("account", state=Account, key="customer_id", requests_remembered=0)
