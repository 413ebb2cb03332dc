"""Complaints about services: each unhealthy fact as a sentence, with the command and the console page that mend it."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from eventlib.operations.status import Status


@dataclass(frozen=True, slots=True)
class Limits:
    """What is healthy: no task without an owner, none with an older lag, no more parked and overdue than this."""

    behind_s: float = 60.0
    parked: int = 0
    overdue: int = 0
    may_stop: bool = False


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something unhealthy: `page` is the address in the console where it is mended, `act` names what is done there.

    `remedy` is what to do about it at a terminal; empty where the sentence says it.
    """

    sentence: str
    page: str
    act: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """It for a terminal."""
        return f"{self.sentence}: {self.remedy}" if self.remedy else self.sentence


def complaints(status: Status, limits: Limits) -> list[str]:
    """Return what is unhealthy as texts for a terminal; nothing when all is well."""
    return [each.text for each in found_wrong(status, limits)]


def found_wrong(status: Status, limits: Limits) -> list[Complaint]:
    """Return what is unhealthy; nothing when all is well. What waits for a pause to end does so on purpose.

    An effect of the past holds nothing up once its saga has ended.
    """
    found = [Complaint(each.sentence, "/topics", "see the log's topics") for each in status.waiting]
    found += [*_of_tasks(status, limits), *_of_inputs(status, limits)]
    parked = sum(not each.is_paused for each in status.parked) - len(status.past_of_ended)
    if parked > limits.parked:
        found.append(Complaint(f"{parked:,} parked", "/parked", "see why, and retry", "`eventlib parked list`"))
    overdue = sum(each.overdue for each in status.sagas or ())
    if overdue > limits.overdue:
        found.append(Complaint(f"{overdue:,} sagas overdue", _sagas("status = 'overdue'"), "see which"))
    return found


def damage_of(status: Status) -> list[Complaint]:
    """Return a complaint about each damaged record of a changelog, which makes no service unhealthy by itself."""
    return [
        Complaint(each.what, _topic(each.topic, partition=each.partition, offset=each.offset), "see what is there")
        for each in status.damaged
    ]


def _of_tasks(status: Status, limits: Limits) -> Iterator[Complaint]:
    unread = {each.target.service for each in status.paused if each.target.kind in {"service", "decider"}}
    for service in dict.fromkeys(task.service for task in status.tasks):
        tasks = status.of(service)
        alone = [task.partition for task in tasks if task.owner is None]
        if alone and status.owners_known and not limits.may_stop:
            where = _sagas(f"status != 'ended' and service = '{service}'")
            yield Complaint(
                f"{service}: {len(alone)} of {len(tasks)} tasks have no owner", where, "see what waits there"
            )
    for service in dict.fromkeys(task.service for task in status.tasks):
        behind_s = max(task.behind_s for task in status.of(service))
        if behind_s > limits.behind_s and service not in unread:
            lag = sum(task.lag for task in status.of(service))
            sentence = f"{service}: {lag:,} inputs behind, the oldest for {behind_s:,.0f} s"
            yield Complaint(sentence, "/choreography", "see where it is slow")


def _of_inputs(status: Status, limits: Limits) -> Iterator[Complaint]:
    for fault in status.faults:
        yield Complaint(fault, "/topics", "see the topics")
    for lost in status.lost:
        sentence = f"{lost.service} has lost inputs: {lost.what}"
        topic, accept = _topic(lost.topic, partition=lost.partition), f"/loss?{urlencode({'service': lost.service})}"
        page = (accept, "see it, and accept the loss") if lost.is_noted else (topic, "see what is left")
        yield Complaint(sentence, *page, lost.remedy)
    oldest_ms = (status.at.timestamp() - limits.behind_s) * 1000
    for held in status.held:
        if any(by.written_ms < oldest_ms for by in held.by):
            yield Complaint(held.what, _topic(held.topic, partition=held.partition), "see what came before it")


def _sagas(where: str) -> str:
    return f"/sagas?{urlencode({'where': where, 'order_by': 'started_at asc'})}"


def _topic(name: str, **about: int) -> str:
    return f"/topics/{quote(name, safe='')}?{urlencode(about)}"
