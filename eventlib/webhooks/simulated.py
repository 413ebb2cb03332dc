"""Subscribers of webhooks in the simulator: the real deliverer; a schedule decides what their endpoints answer."""

from enum import Enum
from pathlib import Path

from eventlib.eventlog import EventLog
from eventlib.ground.arguments import AN_APP, check
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.simulation.consumer_process import ConsumerProcess
from eventlib.simulation.consumers import SimulatedConsumer
from eventlib.webhooks import acts
from eventlib.webhooks.cloudevents import Content, events_of
from eventlib.webhooks.delivering import Timing
from eventlib.webhooks.endpoint import Answer
from eventlib.webhooks.ledger import read_ledger
from eventlib.webhooks.running import runner_of
from eventlib.webhooks.sending import Sender
from eventlib.webhooks.subscribers import Subscriber, read_subscribers


class EndpointOutcome(Enum):
    """What an endpoint does with a request; TAKES is the harmless one."""

    TAKES = "takes it"
    SLOW = "takes it after a while"
    TOO_LATE = "takes it, and answers too late"
    BUSY = "answers 503, and asks for a pause"
    FAILS = "answers 500"
    GONE = "answers 410"


_OUTCOMES = (*[EndpointOutcome.TAKES] * 5, *tuple(EndpointOutcome)[1:])
_ANSWERS = {
    EndpointOutcome.TOO_LATE: Answer("no answer within 15 s"),
    EndpointOutcome.BUSY: Answer("503 Service Unavailable", after_s=2.0),
    EndpointOutcome.FAILS: Answer("500 Internal Server Error"),
    EndpointOutcome.GONE: Answer("410 Gone", is_gone=True),
}
_TAKEN = {EndpointOutcome.TAKES, EndpointOutcome.SLOW, EndpointOutcome.TOO_LATE}


class SimulatedSubscriber(SimulatedConsumer):
    """A subscriber, which gets its events from the log's beginning on. Raises: WiringError for events that there are not."""

    def __init__(self, subscriber: Subscriber, choreography: Choreography) -> None:
        super().__init__(subscriber.name, {contract_of(event).type for event in subscriber.event_types(choreography)})
        self._subscriber = subscriber.model_copy(update={"begin": "start"})

    def wants(self, event: Event) -> bool:
        """See `SimulatedConsumer.wants`."""
        return self._subscriber.wants(event)

    async def run(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.run`."""
        timing = Timing(process.now_ms, lambda _least, most: most)
        endpoint = _SimulatedEndpoint(process)
        sender = Sender(log, self._subscriber, endpoint, lambda _: None)
        await runner_of(log, self._subscriber, lambda: sender, timing).run(process.startup)

    async def operate(self, log: EventLog, process: ConsumerProcess) -> None:
        """See `SimulatedConsumer.operate`."""
        del process
        ledger = await read_ledger(log, self.name)
        if ledger.disabled is not None:
            await acts.enable(log, self.name)
        if any(each.has_failed for each in ledger.parked.values()):
            await acts.retry(log, self.name, None)


def simulated_subscribers(path: str | Path, choreography: Choreography) -> list[SimulatedConsumer]:
    """Return the subscribers in a file, for a scenario.

    `def consumers(self): return simulated_subscribers("webhooks.toml", app)`. Each gets its events from the log's beginning on; nothing is signed or sent. Raises: WiringError for what
    `eventlib webhook run` would refuse in the file.
    """
    check(choreography, Choreography, "choreography", AN_APP)
    return [SimulatedSubscriber(each, choreography) for each in read_subscribers(Path(path)).values()]


class _SimulatedEndpoint:
    def __init__(self, process: ConsumerProcess) -> None:
        self._process = process

    async def post(self, webhook_id: str, content: Content, traceparent: str | None = None) -> Answer:
        """See `Endpoint.post`."""
        del webhook_id, traceparent
        self._process.refuse_dead()
        outcome = self._process.choose("what its endpoint does", _OUTCOMES)
        if outcome is not EndpointOutcome.TAKES:
            self._process.tell(outcome.value)
        if outcome is EndpointOutcome.SLOW:
            await self._process.pause("its endpoint waits")
            self._process.refuse_dead()
        if outcome in _TAKEN:
            self._process.take([event.id for event in events_of(content)])
        await self._process.reached("after a request", fails=False)
        return _ANSWERS.get(outcome, Answer())

    async def close(self) -> None:
        """See `Endpoint.close`."""
