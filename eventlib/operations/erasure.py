"""Erases a subject: its key is destroyed, which is an event on the log, and a receipt tells what that covers.

The order is: the intent on the log, the key destroyed, the receipt on the log. Each step can be repeated, so an erasure that
was interrupted is completed by the next one of the same subject, or by `resume`.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from eventlib.errors import ContractError
from eventlib.log.base import Log
from eventlib.log.open import open_port
from eventlib.log.reading import SkippingReader, records_between
from eventlib.model.record import Record
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.dry_run import token_of
from eventlib.personal.base import is_ciphertext
from eventlib.personal.opening import found_store, has_personal, open_store, personal_options
from eventlib.personal.receipt import (
    BODY_HASH,
    ERASED_TYPE,
    ERASURES,
    NOT_COVERED,
    REQUESTED,
    Receipt,
    guessable,
    read_receipt,
)
from eventlib.values import iso_ms, now_ms

if TYPE_CHECKING:
    from eventlib.personal.store import KeyStore


async def forget(log: Log, store: "KeyStore", subject: str, reason: str, by: str, *, count: bool = True) -> Receipt:
    """Erase a subject, and return the receipt; that of the first time when it was erased before.

    Guarantee: when it returns, the key is gone from the key store's files, and the receipt is durable on the log.
    Raises: ContractError without a subject or a reason; LogUnavailable and the like as `Log.append` does.
    """
    if not subject or not reason.strip():
        raise ContractError("name the subject, and a reason: both are stored on the log")
    requested, done = await _known(log)
    if subject in done and subject not in requested:
        return done[subject]
    begun = requested.get(subject)
    if begun is None:
        begun = Receipt(token_hex(16), subject, reason.strip(), by, iso_ms(now_ms()))
        await _write(log, REQUESTED, begun)
    return await _complete(log, store, begun, count=count)


@dataclass(frozen=True)
class ForgetPreview(Outcome):
    """What erasing a subject would cover: whether it has a key, since when it is erased, and records by topic.

    `records` are those that can no longer be decrypted then; None when they are not counted.
    """

    subject: str
    has_key: bool
    erased_at: str
    records: dict[str, int] | None

    @property
    def token(self) -> str:  # type: ignore[override]  # it follows from the rest
        """What names it: with it the erasure is refused when it would cover something else by then."""
        return token_of("forget", self.subject, self.has_key, self.erased_at, self.records)

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        return {"done": False, **asdict(self), "as_previewed": self.token}


@dataclass(frozen=True)
class Forgotten(Outcome):
    """The receipt of an erasure."""

    receipt: Receipt

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        return {"done": True, **asdict(self.receipt)}


class Forget(Act[str, ForgetPreview | Forgotten]):
    """Erase a person: destroy the key of their personal data, and return the receipt."""

    path: ClassVar[str] = "/subjects/{subject:key}/forget"
    subject: Annotated[str, Field(description="The person's id, as the personal fields name it.")]
    uncounted: Annotated[bool, Field(description="Do not count the records that the receipt covers.")] = False

    async def select(self, desk: Desk) -> str:
        """Return the subject. Raises: ContractError when this application keeps nothing personal."""
        if not has_personal(desk.log.choreography):
            name = desk.log.choreography.name
            raise ContractError(f"{name} has no personal fields: name the application whose events or states have them")
        return self.subject

    async def preview(self, desk: Desk, about: str) -> ForgetPreview:
        """Return what it would cover. Raises: as `preview_forget`."""
        with found_store(desk.log.port.url) as store:
            return await preview_forget(desk.log.port, store, about, count=not self.uncounted)

    async def apply(self, desk: Desk, about: str) -> Forgotten:
        """Erase them. Raises: as `forget`; NoKeys where the keys have no place."""
        count = not self.uncounted
        with open_store(desk.log.port.url, personal_options(), create=True) as store:
            return Forgotten(await forget(desk.log.port, store, about, self.reason, desk.by, count=count))


async def preview_forget(log: Log, store: "KeyStore | None", subject: str, *, count: bool = True) -> ForgetPreview:
    """Return what `forget` would cover now. Guarantee: writes nothing, and destroys no key. Raises: as `forget`."""
    from eventlib.personal.ring import marker_of

    if not subject:
        raise ContractError("name the subject")
    row = None if store is None else store.of_subject(subject)
    has_key = row is not None and row.erased_ms is None
    erased_at = "" if row is None or row.erased_ms is None else iso_ms(row.erased_ms)
    records = None
    if count:
        records = {} if row is None else (await _counted(log, marker_of(row.id)))[0]
    return ForgetPreview(subject, has_key, erased_at, records)


async def resume(log: Log, store: "KeyStore") -> list[Receipt]:
    """Complete the erasures that were interrupted, and make the log and the key store agree on all; return the new receipts.

    After a restore one of them may lack erasures that the other has: those are applied to the store, or written again.
    """
    requested, done = await _known(log)
    apply_erasures(store, done)
    for subject, _ in store.erased_after(0):
        if subject not in done and subject not in requested:
            again = Receipt(token_hex(16), subject, "erased before the log was restored", "eventlib", iso_ms(now_ms()))
            await _write(log, REQUESTED, again)
            requested[subject] = again
    return [await _complete(log, store, begun, count=True) for begun in requested.values()]


async def erase_again(url: str) -> list[Receipt]:
    """Apply to a log that was restored the erasures that the subjects' keys beside it know of; none without such keys.

    Raises: as `resume`.
    """
    with found_store(url) as store:
        if store is None:
            return []
        log = await open_port(url)
        try:
            return await resume(log, store)
        finally:
            await log.close()


async def restore_keys(log: Log, copy: Path, store: "KeyStore") -> int:
    """Put a copy of the keys in the place of a store's, and return how many subjects were erased again.

    Guarantee: what the log or the store has erased is erased in the copy before it takes its place. Raises: WiringError
    when there is no copy; LogCorrupt for one that cannot be read.
    """
    from eventlib.personal.copies import restore

    on_log = dict.fromkeys(subject for each in await _known(log) for subject in each)
    in_store = {subject: store.of_subject(subject) for subject, _ in store.erased_after(0)}
    return restore(store, copy, on_log | in_store)


async def receipts(log: Log) -> list[Receipt]:
    """Return the receipts of all erasures, in order."""
    return [*(await _known(log))[1].values()]


def apply_erasures(store: "KeyStore", subjects: Any) -> int:
    """Destroy the keys of these subjects in a key store, and return how many it still had."""
    from eventlib.personal.ring import erase

    gone = {subject for subject, _ in store.erased_after(0)}
    return sum(erase(store, subject) for subject in subjects if subject not in gone)


async def _complete(log: Log, store: "KeyStore", begun: Receipt, *, count: bool) -> Receipt:
    from eventlib.personal.ring import erase, marker_of

    erase(store, begun.subject)
    row = store.of_subject(begun.subject)
    assert row is not None  # noqa: S101  it was stored as erased
    records, hashes = await _counted(log, marker_of(row.id)) if count else (None, None)
    receipt = replace(
        begun,
        erased_at=iso_ms(row.erased_ms or 0),
        had_key=row.had_key,
        records=records,
        not_covered=NOT_COVERED if hashes == {} else (*NOT_COVERED, guessable(hashes)),
    )
    await _write(log, ERASED_TYPE, receipt)
    return receipt


async def _write(log: Log, kind: str, receipt: Receipt) -> None:
    if ERASURES.name not in await log.topics():
        await log.create_topics([ERASURES])
    value = json.dumps(asdict(receipt), ensure_ascii=False).encode()
    key = receipt.subject.encode()
    await log.append(
        [Record(ERASURES.name, 0, -1, now_ms(), key, value, id=token_hex(16), type=kind, subject=receipt.subject)]
    )


async def _known(log: Log) -> tuple[dict[str, Receipt], dict[str, Receipt]]:
    """Return the erasures that were requested and not completed, and the receipts of the others, by subject."""
    requested, done = dict[str, Receipt](), dict[str, Receipt]()
    async for record in records_of(log, [ERASURES.name]):
        receipt = read_receipt(record)
        if record.type == ERASED_TYPE:
            done.setdefault(receipt.subject, receipt)
            requested.pop(receipt.subject, None)
        elif receipt.subject not in done:
            requested.setdefault(receipt.subject, receipt)
    return requested, done


async def records_of(log: Log, topics: Iterable[str]) -> AsyncIterator[Record]:
    """Yield the records of topics, as far as they are there, without damaged ones."""
    there = await log.topics()
    for topic in topics:
        for partition in range(there[topic].partitions if topic in there else 0):
            start = await log.start(topic, partition)
            async for record in records_between(SkippingReader(log), (topic, partition), start):
                yield record


async def _counted(log: Log, marker: bytes) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many records have ciphertext of a key, and how many of them a hash of a body that is bound to no key."""
    found, hashes = Counter[str](), Counter[str]()
    async for record in records_of(log, await log.topics()):
        if record.value is not None and marker in record.value:
            found[record.topic] += 1
            hashes[record.topic] += any(
                name == BODY_HASH and not is_ciphertext(value.decode("ascii", "replace"))
                for name, value in record.headers
            )
    return dict(found), dict(+hashes)
