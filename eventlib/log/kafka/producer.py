"""A producer: its producer id lets brokers deduplicate retried batches and separate its transactions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from eventlib.errors import EventlibError, RetryableError
from eventlib.log.base import TopicPartition
from eventlib.log.kafka.batches import Batch, Producing, batches, next_sequence
from eventlib.log.kafka.client import TRANSACTION, Cluster
from eventlib.log.kafka.failures import STALE_COORDINATOR, Code, Transient, Undecided, failure
from eventlib.log.kafka.requests import EndTxnRequest5, Exactly, ProduceRequest12
from eventlib.model.record import Record

_COMPRESSION = {"none": 0, "gzip": 1}
_REQUEST_BYTES = 32_000_000  # brokers accept 100 MB
_ALL_IN_SYNC = -1


class Producer:
    """Writes batches, each exactly once despite retries.

    With a transactional id, `commit` makes an append one transaction. With transactions of version 2 (KIP-890), writing
    adds a partition, and each transaction has its own epoch; otherwise partitions are added first.
    """

    def __init__(
        self, cluster: Cluster, lane: str, largest: Callable[[str], int], transactional_id: str | None
    ) -> None:
        self._cluster = cluster
        self._lane = lane
        self._largest = largest
        self._transactional_id = transactional_id
        self._id = -1
        self._epoch = -1
        self._sequences = dict[TopicPartition, int]()
        self._is_open = False

    async def start(self) -> None:
        """Obtain a producer id; with a transactional id, its former owner is fenced and its transaction ended.

        Raises: LogUnavailable, LogDenied.
        """
        options = self._cluster.options
        message = InitProducerIdRequest(self._transactional_id, int(options.transaction_timeout_s * 1000))

        async def attempt() -> None:
            if self._transactional_id is None:
                answer = await self._cluster.ask(message)
                self._refuse(answer.error_code, "obtaining a producer id")
            else:
                answer = await self._ask_coordinator(message, "taking over")
            self._id, self._epoch = answer.producer_id, answer.producer_epoch

        await self._cluster.persist(attempt, options.append_timeout_s)
        self._sequences.clear()

    async def produce(self, records: Sequence[Record]) -> list[int]:
        """Append records without a transaction: each batch is atomic, several together are not.

        Raises: LogUnavailable when the outcome is unknown, and then the producer must start again;
        ContractError, LogDenied.
        """
        return await self._write(self._batches(records), self._cluster.options.append_timeout_s)

    async def commit(self, records: Sequence[Record]) -> list[int]:
        """Append records in a transaction, and return their offsets once it is decided.

        Raises: Fenced after a takeover, its Undecided when the outcome is unknown: the producer is unusable then;
        LogUnavailable, ContractError, LogDenied when nothing was written.
        """
        try:
            offsets = await self.write(records)
        except EventlibError as error:
            await self.give_up(error)
            raise
        await self.end()
        return offsets

    async def write(self, records: Sequence[Record]) -> list[int]:
        """Append records to the open transaction, or begin one with them, and return their offsets.

        Raises: Fenced; LogUnavailable, ContractError, LogDenied, and then `give_up` must follow.
        """
        made = self._batches(records)
        if not self._cluster.implicit_transactions:
            await self._announce({batch.topic_partition for batch in made})
        self._is_open = True
        return await self._write(made, self._cluster.options.transaction_timeout_s)

    async def end(self) -> None:
        """Commit the open transaction. Raises: Fenced, its Undecided when the outcome is unknown."""
        await self._end(committed=True)

    async def give_up(self, error: Exception) -> None:
        """Abort the open transaction, if there is one, because of an error. Raises: Fenced, Undecided as `end` does."""
        if not self._is_open:
            return
        await self._end(committed=False)
        if isinstance(error, RetryableError) and not self._cluster.implicit_transactions:
            # A delayed request may still arrive, and would join this producer's next transaction.
            raise Undecided(str(error)) from error

    async def pass_over(self, topic_partition: TopicPartition, offsets: int) -> None:
        """Consume offsets of a partition, at least one, without readable records.

        Writes an aborted transaction: its records stay invisible, and its marker is not a record. It may be incomplete
        when this returns; the partition's end shows when it is complete. Raises: as `commit`.
        """
        nothing = Record(*topic_partition, -1, 0, None, None)
        await self._announce({topic_partition})
        await self._write(self._batches([nothing] * (offsets - 1)), self._cluster.options.transaction_timeout_s)
        await self._end(committed=False)

    def _batches(self, records: Sequence[Record]) -> list[Batch]:
        compression = _COMPRESSION[self._cluster.options.compression]
        producing = Producing(self._id, self._epoch, self._transactional_id is not None, compression)
        return [*batches(records, producing, self._sequences, self._largest)]

    async def _announce(self, topic_partitions: set[TopicPartition]) -> None:
        by_topic = dict[str, list[int]]()
        for topic, partition in topic_partitions:
            by_topic.setdefault(self._cluster.physical(topic), []).append(partition)
        message = AddPartitionsToTxnRequest(self._transactional_id, self._id, self._epoch, [*by_topic.items()])

        async def attempt() -> None:
            answer = await self._send_coordinator(message)
            codes = {code for _, partitions in answer.errors for _, code in partitions}
            for code in sorted(codes - {Code.NONE}):
                self._refuse(code, "beginning a transaction")

        await self._cluster.persist(attempt, self._cluster.options.append_timeout_s)

    async def _end(self, *, committed: bool) -> None:
        """End the transaction. Raises: Fenced; Undecided when the outcome is unknown."""
        self._is_open = False
        what = "committing" if committed else "aborting"

        async def attempt() -> None:
            if self._cluster.implicit_transactions:
                message: Any = Exactly(EndTxnRequest5(self._transactional_id, self._id, self._epoch, committed, {}))
            else:
                message = EndTxnRequest(self._transactional_id, self._id, self._epoch, committed)
            answer = await self._ask_coordinator(message, what)
            if self._cluster.implicit_transactions:
                self._id, self._epoch = answer.producer_id, answer.producer_epoch
                self._sequences.clear()

        try:
            await self._cluster.persist(attempt, self._cluster.options.transaction_timeout_s)
        except EventlibError as error:
            raise Undecided(f"the outcome of {what} is unknown: {error}") from error

    async def _write(self, made: list[Batch], within_s: float) -> list[int]:
        """Write batches, each partition's one after the other, and return the offsets of their records."""
        offsets = dict[int, int]()
        while made:
            now, made = _first_of_each(made)
            await self._write_round(now, within_s, offsets)
        return [offsets[index] for index in range(len(offsets))]

    async def _write_round(self, now: list[Batch], within_s: float, offsets: dict[int, int]) -> None:
        left = {batch.topic_partition: batch for batch in now}
        goes_ahead = False

        async def attempt() -> None:
            nonlocal goes_ahead
            by_leader = self._cluster.by_leader(left)
            first = 1 if goes_ahead else None
            sent = [
                self._send(node, [left[topic_partition] for topic_partition in topic_partitions[:first]])
                for node, topic_partitions in by_leader.items()
            ]
            errors, before = list[Exception](), len(left)
            for written, failed in await asyncio.gather(*sent):
                errors += failed
                for topic_partition, offset in written:
                    batch = left.pop(topic_partition)
                    offsets.update(zip(batch.indexes, range(offset, offset + len(batch.indexes)), strict=True))
                    self._sequences[topic_partition] = next_sequence(batch.sequence, len(batch.indexes))
            # While the producer's last transaction completes, brokers refuse all batches: then only one is retried.
            goes_ahead = len(left) == before
            if errors:  # one that retrying does not help decides
                raise min(errors, key=lambda error: isinstance(error, Transient))

        while left:
            await self._cluster.persist(attempt, within_s)

    async def _send(self, node: int, now: list[Batch]) -> tuple[list[tuple[TopicPartition, int]], list[Exception]]:
        """Send batches to their leader; return the first offsets of the written ones, and the errors of the others."""
        written, failed = list[tuple[TopicPartition, int]](), list[Exception]()
        try:
            answer = await self._cluster.send(node, self._message(now), self._lane)
        except Transient as error:
            return written, [error]
        for topic, partitions, *_tags in answer.topics:
            name = self._cluster.logical(topic)
            for partition, code, offset, *_ in partitions:
                if code:
                    failed.append(failure(code, f"writing to {name}/{partition}"))
                else:
                    written.append(((name, partition), offset))
        return written, failed

    def _message(self, now: list[Batch]) -> Any:
        timeout_ms = int(self._cluster.options.request_timeout_s * 1000)
        by_topic = dict[str, list[Batch]]()
        for batch in now:
            by_topic.setdefault(self._cluster.physical(batch.topic_partition[0]), []).append(batch)
        if self._cluster.implicit_transactions:
            tagged: list[Any] = [
                (name, [(b.topic_partition[1], b.data, {}) for b in found], {}) for name, found in by_topic.items()
            ]
            return Exactly(ProduceRequest12(self._transactional_id, _ALL_IN_SYNC, timeout_ms, tagged, {}))
        plain = [(name, [(b.topic_partition[1], b.data) for b in found]) for name, found in by_topic.items()]
        return ProduceRequest(self._transactional_id, _ALL_IN_SYNC, timeout_ms, plain)

    async def _ask_coordinator(self, message: Any, what: str) -> Any:
        answer = await self._send_coordinator(message)
        self._refuse(answer.error_code, what)
        return answer

    async def _send_coordinator(self, message: Any) -> Any:
        node = await self._cluster.coordinator(TRANSACTION, self._transactional_id or "")
        try:
            return await self._cluster.send(node, message, self._lane)
        except Transient:
            self._cluster.forget_coordinator(TRANSACTION, self._transactional_id or "")
            raise

    def _refuse(self, code: int, what: str) -> None:
        if code in STALE_COORDINATOR:
            self._cluster.forget_coordinator(TRANSACTION, self._transactional_id or "")
        if code:
            raise failure(code, f"{what} as {self._transactional_id or 'a writer'}")


def _first_of_each(made: list[Batch]) -> tuple[list[Batch], list[Batch]]:
    """Return each partition's next batch, as far as they fit into a request, and the remaining batches."""
    now, rest = dict[TopicPartition, Batch](), list[Batch]()
    size = 0
    for batch in made:
        size += len(batch.data)
        if batch.topic_partition in now or (now and size > _REQUEST_BYTES):
            rest.append(batch)
        else:
            now[batch.topic_partition] = batch
    return [*now.values()], rest
