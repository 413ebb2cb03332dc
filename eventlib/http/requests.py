"""Requests that count once: put on the log under an Idempotency-Key, and answered when they are decided."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_hex
from time import monotonic
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import Header
from pydantic import BaseModel

from eventlib.errors import ContractError, EventlibError, LogFull, RetryableError
from eventlib.http.config import ApiConfig
from eventlib.http.problems import FieldError, Refusal, try_later
from eventlib.http.traffic import Metrics
from eventlib.identity.principal import Principal
from eventlib.model.event import Event, contract_of, key_of
from eventlib.model.personal import ERASED, MASKED
from eventlib.model.record import Record
from eventlib.personal.receipt import BODY_HASH
from eventlib.queries.saga_index import WORK, SagaIndex
from eventlib.values import now_ms

R = TypeVar("R", bound=Event)
ACTED_BY = "acted-by"
"""The header of a request that holds the name of the caller, where callers have an identity."""
_ID_BYTES = 10

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Makes repeating safe: one key and body lead to one saga, whose id follows from the key.",
        examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ),
]


class RequestPlace(NamedTuple):
    """Where a request stands in its topic."""

    partition: int
    offset: int

    @classmethod
    def of(cls, record: Record) -> "RequestPlace":
        """Return where a request's record stands."""
        return cls(record.partition, record.offset)

    @property
    def text(self) -> str:
        """As clients see it, and give it back as `min_position`."""
        return f"{self.partition}-{self.offset}"


class Accepted(NamedTuple, Generic[R]):
    """A request on the log: the key of its saga, where it stands, and its event; None where that cannot be read."""

    key: str
    place: RequestPlace
    request: R | None


class Requests(Generic[R]):
    """Puts requests of one type on the log, those that begin a saga of the index's decider.

    Guarantee: what was accepted is durable; one Idempotency-Key leads to at most one request, on whichever instances
    it arrives.
    """

    def __init__(
        self, index: SagaIndex[Any], request: type[R], config: ApiConfig, metrics: Metrics, counted_as: str
    ) -> None:
        self.topic = contract_of(request).topic.name
        self._index = index
        self._request = request
        self._name = index.decider.name
        self._config = config
        self._metrics = metrics
        self._counted_as = counted_as
        metrics.declare(f"{counted_as}_accepted", f"{counted_as.capitalize()} put on the log.")
        metrics.declare(
            f"{counted_as}_repeated", f"Repeated requests for {counted_as}: same Idempotency-Key, same body."
        )
        metrics.declare("refused_over_backlog", "Requests refused because too many waited.")
        self._waiting = WaitingWork(index, self.topic)

    def key_for(self, idempotency_key: str | None) -> str:
        """Return the key of the saga that a request begins: always the same under one Idempotency-Key."""
        return token_hex(_ID_BYTES) if idempotency_key is None else _digest(f"{self._name}\x1f{idempotency_key}")

    async def unexpired(self, idempotency_key: str) -> str:
        """Return the text that stands for an idempotency key now: another one after each time that the key expires.

        Raises: ProjectionBehind when it is not known whether the key was used.
        """
        expires_s, text, uses = self._config.idempotency_s, idempotency_key, 1
        while expires_s is not None:
            first = await self._index.first_current(self.key_for(text), self._request, self._config.decision_s)
            if first is None or first.timestamp_ms > now_ms() - expires_s * 1000:
                break
            uses += 1
            text = f"{idempotency_key}\x1f{uses}"
        return text

    async def repeated(self, key: str, body: BaseModel) -> Accepted[R] | None:
        """Return what was accepted for a key before, as far as this instance has read, once that is decided.

        Raises: Refusal when that came with another body; once one of its subjects is erased, no body is another.
        """
        first = self._index.first(key, self._request)
        if first is None:
            return None
        accepted = self._same(key, first, body)
        self._metrics.count(f"{self._counted_as}_repeated")
        await self._settled(accepted.place)
        return accepted

    async def accept(
        self, event: R, body: BaseModel, idempotency_key: str | None, *, work: int = 1, caller: Principal | None = None
    ) -> Accepted[R]:
        """Put a request on the log, wait for its decision, and return what counts under the key.

        `work` is what the request costs the service, in units of a small request's; the record has the name of the caller,
        if it has an identity. Raises: Refusal; LogUnavailable and the like when nothing was accepted.
        """
        key, own, headers = key_of(event) or "", None, dict[str, str]()
        if idempotency_key is not None:
            own = f"http/{self._name}/{idempotency_key}"
            headers[BODY_HASH] = self._index.log.codec.seal(event, BODY_HASH, _hash(body))
        place = await self.publish(event, own, headers, work=work, caller=caller)
        self._metrics.count(f"{self._counted_as}_accepted")
        await self._settled(place)
        accepted = Accepted(key, place, event)
        return accepted if own is None else await self._first(accepted, body)

    async def publish(
        self,
        event: Event,
        idempotency_key: str | None,
        headers: Mapping[str, str] | None = None,
        *,
        work: int = 1,
        caller: Principal | None = None,
    ) -> RequestPlace:
        """Put any request of the topic on the log, unless too much work waits. Raises: as `accept`."""
        await self.refuse_over_backlog(work)
        own = {WORK: str(work)} if work > 1 else {}
        if caller is not None and caller.scope:
            own[ACTED_BY] = caller.by
        admitted = self._waiting.admit(work)
        try:
            place = await self._put(event, idempotency_key, {**(headers or {}), **own})
        except BaseException:
            self._waiting.withdraw(admitted)
            raise
        admitted.at = place
        return place

    async def _put(self, event: Event, idempotency_key: str | None, headers: Mapping[str, str]) -> RequestPlace:
        try:
            async with asyncio.timeout(self._config.append_s):
                at = await self._index.log.publish(event, headers=headers, idempotency_key=idempotency_key)
        except ContractError as error:
            raise Refusal(413, "too-large", "the request does not fit into one event: split it") from error
        except LogFull:
            raise  # nothing of it was written
        except (RetryableError, TimeoutError) as error:
            field, key = self._index.decider.key, key_of(event)
            raise try_later(
                "outcome-unknown",
                "the log did not say whether it has taken this: repeat it with the same Idempotency-Key; without one, "
                f"see first whether {field} {key} is there, now and in a while",
                extra={str(field): key},
            ) from error
        return RequestPlace(at.partition, at.offset)

    async def decided(self, place: RequestPlace) -> bool:
        """Wait for a decision; False when it was not in time. Raises: LogUnavailable and the like."""
        return await self._index.decided(self.topic, *place, self._config.decision_s)

    async def backlog(self) -> int:
        """Return how much work waits for the service: 1 for each request, or the `work` that it was accepted with.

        Raises: LogUnavailable.
        """
        return await self._index.backlog(self.topic)

    def read(self, record: Record) -> R | None:
        """Return a request's event; None when it cannot be read (the timeline has the reason)."""
        try:
            event = self._index.log.decode(record)
        except EventlibError:
            return None
        return event if isinstance(event, self._request) else None

    async def _settled(self, place: RequestPlace) -> None:
        """Wait for a decision on what is on the log: it stays accepted, whatever becomes of the index."""
        with suppress(EventlibError):
            await self.decided(place)

    async def _first(self, accepted: Accepted[R], body: BaseModel) -> Accepted[R]:
        """Return what counts under a key: the request that is first on the log, also while the index is behind."""
        key, place, _ = accepted
        try:
            async with asyncio.timeout(self._config.append_s):
                first = await self._index.first_before(key, self._request, place.offset)
        except (EventlibError, TimeoutError) as error:
            raise try_later(
                "outcome-unknown",
                "a request was accepted under this Idempotency-Key, and it is not known yet whether it was this one: "
                "repeat it with the same key",
                extra={str(self._index.decider.key): key},
            ) from error
        return accepted if first is None else self._same(key, first, body)

    def _same(self, key: str, first: Record, body: BaseModel) -> Accepted[R]:
        sealed = dict(first.headers).get(BODY_HASH, b"").decode("ascii", "replace")
        if self._index.log.codec.unseal(sealed) not in {_hash(body), ERASED, MASKED}:
            raise Refusal(
                422,
                "idempotency-key-reused",
                f"this Idempotency-Key was used for another {self._name}: send the same body again, or another key",
                errors=[FieldError(place="header", field="Idempotency-Key", message="was used with another body")],
                extra={str(self._index.decider.key): key},
            )
        return Accepted(key, RequestPlace.of(first), self.read(first))

    async def refuse_over_backlog(self, work: int = 1) -> None:
        """Refuse work while too much waits; `publish` does so too, and this spares what is done before it.

        Raises: Refusal; LogUnavailable.
        """
        async with asyncio.timeout(self._config.append_s):
            waiting = await self._waiting.now()
        if waiting and waiting + work > self._config.backlog:
            self._metrics.count("refused_over_backlog")
            raise try_later("backlog", f"{waiting} units of work wait already: come back when some are done")


def _hash(body: BaseModel) -> str:
    return blake2b(body.model_dump_json().encode(), digest_size=16).hexdigest()


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_ID_BYTES).hexdigest()


_COUNTED_FOR_S = 0.02


@dataclass(slots=True, eq=False)
class Admitted:
    """A request that was admitted: its work, where it is on the log, and how much of it the last count has left out."""

    work: int
    at: tuple[int, int] | None = None
    uncounted: int = 0


class WaitingWork:
    """The work of a topic's requests that are not decided, as far as this process knows.

    Guarantee: what this process has admitted counts at once, on whichever side of the index it is.
    """

    def __init__(self, index: SagaIndex[Any], topic: str) -> None:
        self._index = index
        self._topic = topic
        self._admitted = dict[Admitted, None]()
        self._waiting = 0
        self._counted_at = float("-inf")

    async def now(self) -> int:
        """Return the work that waits, some milliseconds old. Raises: LogUnavailable."""
        if monotonic() - self._counted_at >= _COUNTED_FOR_S:
            on_log = [each for each in self._admitted if each.at is not None]
            count, self._counted_at = await self._index.backlog(self._topic), monotonic()
            self._waiting = count
            for each in on_log:
                each.uncounted = each.work - 1  # the index counts what it has not read as one
                if self._has_read(*(each.at or (0, 0))):
                    self._admitted.pop(each, None)
        return self._waiting + sum(each.uncounted for each in self._admitted)

    def admit(self, work: int) -> Admitted:
        """Count a request that is about to be put on the log; `at` of what is returned is where it is then."""
        admitted = Admitted(work, uncounted=work)
        self._admitted[admitted] = None
        return admitted

    def withdraw(self, admitted: Admitted) -> None:
        """Forget a request that was not put on the log."""
        self._admitted.pop(admitted, None)

    def _has_read(self, partition: int, offset: int) -> bool:
        if self._topic in self._index.view.inputs:
            return self._index.positions.get((self._topic, partition), 0) > offset
        return self._index.handled(self._topic, partition) > offset
