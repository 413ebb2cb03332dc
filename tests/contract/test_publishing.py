"""Putting events on a log from outside, on every log: where they go, under which id, and what is refused."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from eventlib import Choreography, Event, EventLog, Publication, Topic, WiringError, open_log
from eventlib.errors import ContractError
from eventlib.external import Json
from eventlib.model.identity import request_id
from eventlib.values import to_ms
from tests.apps.smallest import Said, noting
from tests.contract.catalogue import Delisted, Listed
from tests.integration.reopening import everything

SMALL = Topic("small", partitions=2, max_event_bytes=100)


class Measured(Event, topic=Topic("measures", partitions=3), key=None):
    value: int


class Noted(Event, topic=SMALL, key="key"):
    key: str
    text: str = ""


class Theirs(Event, topic="theirs", key="key", external=Json()):
    key: str


class Unheard(Event, topic=SMALL, key="key"):
    key: str


FACTS = Choreography("facts", [noting()], facts=[Listed, Delisted, Measured, Noted, Theirs])


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"
    async with open_log(url, FACTS) as opened:
        yield opened


async def test_a_position_is_where_the_event_stands(log: EventLog) -> None:
    first = await log.publish(Said(key="a"))
    second = await log.publish(Said(key="a"))
    assert (first.topic, first.partition) == ("small.said", Topic("small.said").partition_of(b"a"))
    assert (second.partition, second.offset > first.offset) == (first.partition, True)
    records = await log.port.read(second.topic, second.partition, second.offset, 1)
    assert [(r.offset, r.timestamp_ms) for r in records] == [(second.offset, to_ms(second.recorded_at))]
    assert log.decode(records[0]) == Said(key="a")


async def test_what_goes_with_an_event(log: EventLog) -> None:
    await log.publish(Said(key="a"), headers={"who": "ö", "empty": ""}, idempotency_key="once")
    (record,) = await everything(log, "small.said")
    assert record.headers == (("who", "ö".encode()), ("empty", b""))
    assert record.meta().headers == {"who": "ö".encode(), "empty": b""}
    assert record.id == record.correlation_id == request_id("small.said", "once")
    assert (record.type, record.source, record.subject, record.causation_id) == ("Said", "outside", "a", None)
    assert (record.traceparent or "").startswith(f"00-{record.id}-")


async def test_one_idempotency_key_is_one_id_and_none_is_a_new_one(log: EventLog) -> None:
    for key in ("k", "k", "other", None, None):
        await log.publish(Said(key="a"), idempotency_key=key)
    ids = [record.id for record in await everything(log, "small.said")]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


async def test_many_are_in_order_and_each_has_its_position(log: EventLog) -> None:
    events = [Said(key=str(n % 5)) if n % 2 else Listed(sku=str(n % 3), cents=1) for n in range(50)]
    positions = await log.publish_many([Publication(event) for event in events])
    for event, position in zip(events, positions, strict=True):
        (record,) = await log.port.read(position.topic, position.partition, position.offset, 1)
        assert log.decode(record) == event
    assert await log.publish_many([]) == []


async def test_keyless_events_go_round(log: EventLog) -> None:
    for value in range(4):
        await log.publish(Measured(value=value))
    await log.publish_many([Publication(Measured(value=value)) for value in range(8)])
    records = await everything(log, "measures")
    assert Counter(record.partition for record in records) == {0: 4, 1: 4, 2: 4}
    assert {(record.key, record.subject) for record in records} == {(None, None)}


async def test_a_partition_can_be_named(log: EventLog) -> None:
    assert [(await log.publish(Measured(value=1), partition=2)).partition for _ in range(3)] == [2, 2, 2]
    assert (await log.publish(Said(key="a"), partition=1)).partition == 1
    with pytest.raises(ContractError, match="'measures' has partitions 0 to 2, but no 3"):
        await log.publish(Measured(value=1), partition=3)
    with pytest.raises(ContractError, match="no -1"):
        await log.publish(Measured(value=1), partition=-1)


async def test_a_topic_held_twice_has_both_or_none(log: EventLog) -> None:
    position = await log.publish(Listed(sku="A", cents=1))
    await log.publish(Delisted(sku="A"))
    assert position.topic == "goods"
    told, kept = await everything(log, "goods"), await everything(log, "goods.latest")
    assert [record.type for record in told] == ["Listed", "Delisted"]
    assert [(record.id, record.value is None) for record in kept] == [(told[0].id, False), (told[1].id, True)]
    assert [record.partition for record in kept] == [position.partition] * 2


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Noted(key="a", text="x" * 200), "Noted for topic 'small' has 2.. bytes, but the topic accepts events of at most 100"),
        (Noted(key=""), "Noted.key is the event's key and must not be empty"),
        (Unheard(key="a"), "Unheard is not an event of facts: let a decider handle or emit it, or name it in"),
        (Theirs(key="a"), "Theirs is external: others write topic theirs"),
        (Noted.model_construct(key="a", text=3), "Noted.text does not fit its schema"),
        ({"key": "a"}, "only events are published, and dict is none"),
        (Said, r"Said is a class: publish one of its events, Said\(...\)"),
        (None, "only events are published, and NoneType is none"),
    ],
)  # fmt: skip
async def test_what_is_refused_leaves_nothing_behind(log: EventLog, event: Event, sentence: str) -> None:
    with pytest.raises(ContractError, match=sentence):
        await log.publish_many([Said(key="a"), Listed(sku="A", cents=1), event])
    for topic in ("small.said", "goods", "goods.latest", "small"):
        assert await everything(log, topic) == []


async def test_many_are_events_or_publications_and_one_alone_is_taken(log: EventLog) -> None:
    assert len(await log.publish_many([Said(key="a"), Publication(Said(key="b"), "b")])) == 2
    assert len(await log.publish_many(each for each in [Said(key="c")])) == 1
    assert len(await log.publish_many(Said(key="d"))) == 1  # type: ignore[arg-type]  # what is meant is plain
    assert await log.publish_many([]) == []


async def test_what_goes_with_an_event_wrongly_is_refused_with_the_remedy(log: EventLog) -> None:
    said = Said(key="a")
    mistakes: list[tuple[Callable[[], Awaitable[object]], str]] = [
        (lambda: log.publish([said]), "publish takes one event: give several to publish_many"),  # type: ignore[arg-type]  # these are the mistakes
        (lambda: log.publish_many(None), "only events are published, and NoneType is none"),  # type: ignore[arg-type]
        (lambda: log.publish(said, idempotency_key=5), "idempotency_key=5: a key is text; give str"),  # type: ignore[arg-type]
        (lambda: log.publish(said, partition="1"), "partition='1': a partition is a whole number from 0"),  # type: ignore[arg-type]
        (lambda: log.publish(said, partition=True), "partition=True: a partition is a whole number from 0"),
        (lambda: log.publish(said, headers={"a": 1}), "give a dict of names and values, both of them text"),  # type: ignore[dict-item]
        (lambda: log.publish(said, headers=["a"]), "give a dict of names and values, both of them text"),  # type: ignore[arg-type]
    ]
    for call, sentence in mistakes:
        with pytest.raises(ContractError, match=sentence):
            await call()
    assert await everything(log, "small.said") == []


async def test_an_abstract_event_is_refused(log: EventLog) -> None:
    class Common(Event, abstract=True):
        key: str

    with pytest.raises(WiringError, match="Common is abstract"):
        await log.publish(Common(key="a"))


@pytest.mark.parametrize("name", ["ce_id", "traceparent", "parked_reason", "past_of"])
async def test_a_header_of_the_librarys_own_is_refused(log: EventLog, name: str) -> None:
    with pytest.raises(ContractError, match=f"the header '{name}' is the library's own"):
        await log.publish(Said(key="a"), headers={name: "x"})


async def test_a_log_that_is_only_looked_at_takes_nothing(log: EventLog, tmp_path: Path) -> None:
    if not log.port.url.startswith("sqlite"):
        return
    async with open_log(f"sqlite:///{tmp_path}/other.db", FACTS) as other:
        await other.publish(Said(key="a"))
    async with open_log(f"sqlite:///{tmp_path}/other.db", FACTS, read_only=True) as other:
        with pytest.raises(WiringError, match="Said has no schema id yet"):
            await other.publish(Said(key="a"))
