"""Runs webhooks: each subscriber on its own, so that one that is slow, down or wrongly declared keeps no other waiting."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from eventlib.errors import EventlibError, WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.startup import Startup
from eventlib.ground.tasks import cancelled
from eventlib.ground.watched_file import WatchedFile
from eventlib.model.kept_error import KeptError
from eventlib.sinks.consuming import ConsumptionRunner
from eventlib.webhooks.delivering import Delivering, Timing
from eventlib.webhooks.endpoint import Endpoint
from eventlib.webhooks.ledger import service_of
from eventlib.webhooks.sending import Attempt, Observe, Sender
from eventlib.webhooks.subscribers import Subscriber, read_subscribers

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_AGAIN_S = 15.0


class WebhookRunner:
    """One process of webhooks; of several, each subscriber has one that works, and another takes over when it dies.

    The file is read again when it changes: subscribers are added, changed and removed while the others go on.
    `personal` is whether the log was opened with the keys of personal fields.
    Raises: WiringError for a file that cannot be read, or that names an event or a secret that there is not.
    """

    def __init__(self, log: EventLog, path: Path, *, personal: bool = True, observe: Observe = lambda _: None) -> None:
        self._log = log
        self._personal = personal
        self._observe = observe
        self._file = WatchedFile(path, self._read, "the subscribers stay as they were")
        self.subscribers = self._file.content
        self.attempts = Counter[tuple[str, str]]()
        """How many attempts there were, by subscriber and outcome: `delivered` or `failed`."""
        self.delivered = 0

    async def run(self, startup: Startup | None = None) -> None:
        """Work until cancelled; a log that does not answer is waited for."""
        startup = startup or Startup()
        running = dict[str, tuple[Subscriber, asyncio.Task[None]]]()
        try:
            while True:
                for name, (subscriber, task) in [*running.items()]:
                    if self.subscribers.get(name) != subscriber:
                        await cancelled(task)
                        del running[name]
                for name, subscriber in self.subscribers.items():
                    if name not in running:
                        startup.begin(subscriber.work)
                        running[name] = subscriber, asyncio.create_task(self._deliver(subscriber, startup))
                await asyncio.sleep(_LOOK_S)
                self.subscribers = self._file.content
        finally:
            await cancelled(*(task for _, task in running.values()))

    def _note(self, attempt: Attempt) -> None:
        is_delivered = attempt.answer.error is None
        self.attempts[attempt.subscriber, "delivered" if is_delivered else "failed"] += 1
        self.delivered += len(attempt.events) if is_delivered else 0
        self._observe(attempt)

    def _read(self, path: Path) -> Mapping[str, Subscriber]:
        """Return subscribers whose events and secrets are there. Raises: WiringError."""
        found = read_subscribers(path)
        for each in found.values():
            each.event_types(self._log.choreography)
            each.signing_secrets()
            if each.personal and not self._personal:
                raise WiringError(
                    f"subscriber {each.name}: personal = true needs keys, which are opened at the start: start the process again"
                )
        return found

    async def _deliver(self, subscriber: Subscriber, startup: Startup) -> None:
        while True:
            runner = runner_of(
                self._log, subscriber, lambda: Sender(self._log, subscriber, Endpoint(subscriber), self._note)
            )
            try:
                await runner.run(startup)
            except Exception as error:  # noqa: BLE001  whatever it is, others go on, and another attempt may work
                kept = KeptError.of(error, personal=subscriber.personal)
                why = error if isinstance(error, EventlibError) else kept.traceback
                _log.error("%s stopped, and will be tried again: %s", subscriber.work, why)
                await asyncio.sleep(_AGAIN_S)


def runner_of(
    log: EventLog, subscriber: Subscriber, sender: Callable[[], Sender], timing: Timing | None = None
) -> ConsumptionRunner:
    """Return one process's work for a subscriber, which makes a sender each time that it begins."""
    return ConsumptionRunner(
        log,
        subscriber.work,
        service_of(subscriber.name),
        1,
        lambda held: Delivering(log, subscriber, held[0], sender(), timing),
    )
