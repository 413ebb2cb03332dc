"""A service's live views as a Faust application: `app = LiveApp(shop, "order")`."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any, TypeVar, cast
from warnings import catch_warnings

import faust
import mode
from faust.exceptions import AlreadyConfiguredWarning
from faust.types import TP, StreamT, TopicT
from faust.web.drivers.aiohttp import Web

from eventlib.config.settings import eventlib_settings, runtime_config
from eventlib.contracts.view_manifest import Viewing
from eventlib.errors import WiringError
from eventlib.eventlog import EventLog
from eventlib.ground.arguments import AN_APP, check
from eventlib.ground.private_files import make_private_directory
from eventlib.ground.startup import Startup
from eventlib.http.serving import DEFAULT_HOST, Listening
from eventlib.live.connection import connection_to
from eventlib.live.counters import ViewCounters
from eventlib.live.events import CarriedSchema, Carry, EventSchema, Publisher, Recorded
from eventlib.live.joins import Joined, Sums
from eventlib.live.queries import Queries
from eventlib.live.rows import Row, Rows
from eventlib.live.store import LiveTable
from eventlib.live.timed import Keeping
from eventlib.live.transport import Consumer, Sent, Transport
from eventlib.live.windows import Sessions, Windows
from eventlib.log.kafka.bounded_consumers import bound_fetches
from eventlib.log.losses import RECREATED, warn_of_loss
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event, contract_of
from eventlib.model.topic import DEFAULT_PARTITIONS, Topic
from eventlib.opening import open_log
from eventlib.state.global_table import GlobalTable


class Pages(Web):
    """What Faust starts and stops as an app's web server.

    Guarantee: clients are kept within the limits of EVENTLIB_HTTP_…, and are let in by the identity; of Faust's own pages,
    which have neither, none is served. Raises: WiringError, when it starts, for an address that cannot be used, or that other
    machines reach without an identity.
    """

    def __init__(self, app: "LiveApp", **options: Any) -> None:
        super().__init__(app, **options)
        self._queries = app.queries
        self._serving = AsyncExitStack()

    async def start_server(self) -> None:
        """Listen where the app's settings tell."""
        host, port = self.app.conf.web_bind, self.app.conf.web_port
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        listening = Listening(where, identity=self._queries.identity, tls=None)  # workers ask each other over HTTP
        self._serving.enter_context(closing(listening))
        await self._serving.enter_async_context(listening.serve(self._queries.pages))

    async def stop_server(self) -> None:
        """Answer the requests in progress, for a few seconds, and end."""
        await self._serving.aclose()
        await super().stop_server()


E = TypeVar("E", bound=Event)
R = TypeVar("R", bound=Rows)
Agent = Callable[[Any], Awaitable[None]]

_COMMIT_S = 1.0
_LINGER_S = 0.05
_LOST, _TOPICS = "lost", "topics.json"
"""The files beside the tables that name what was lost, and the topics that are read, with their ids."""

_log = logging.getLogger("eventlib.live")


class LiveApp(faust.App):
    """What a service shows of its streams: its own consumer group, tables on RocksDB, topics of its own beside the log's.

    It is made when `views.py` is imported, for the log of EVENTLIB_LOG, and reaches for that log only when it starts.
    Guarantee: at least once; a table's rows take each event once (see `Rows`), so that they are right again after a
    crash. What views publish (alerts, derived topics) may come again, under the same id.
    """

    def __init__(self, choreography: Choreography, service: str, partitions: int = DEFAULT_PARTITIONS) -> None:
        check(choreography, Choreography, "choreography", AN_APP)
        self.choreography = choreography
        self.of = choreography.service(service).name
        self.connection = connection_to(eventlib_settings().log)
        self.sent = Sent()
        self.counters = ViewCounters()
        self.losses = list[str]()
        """What was gone before views have read it here, as sentences, until they are reset."""
        self.startup = Startup()
        self.views: dict[str, Rows] = {}
        self.carries: dict[str, Carry] = {}
        self._partitions = partitions
        self._watched = dict[type[Event], None]()
        self._copied = list[type[Event]]()
        self._told = list[type[Event]]()
        self._opened: dict[type[Event], GlobalTable[Any]] = {}
        self._stack = AsyncExitStack()
        self._event_log: EventLog | None = None
        self._wanted = set[str]()
        self._schema = EventSchema(self.connection, self._wanted, lambda: self.log_here, self.counters)
        super().__init__(self.connection.options.group(self.viewing.group), **_settings(self.connection.settings()))
        self.queries = Queries(self)

    @property
    def log_here(self) -> EventLog:
        """The log, while the app runs."""
        if self._event_log is None:
            raise WiringError(f"the live views of {self.of} do not run: start them with `eventlib live`")
        return self._event_log

    def watch(self, *events: type[Event]) -> Callable[[Agent], Any]:
        """Decorate what gets these events, of all partitions that this worker has, each partition's in order."""
        self._watched |= dict.fromkeys(events)
        kinds = {contract_of(event).type: contract_of(event).topic.name for event in events}
        self._wanted.update(kinds)
        topics = [self.connection.physical(name) for name in dict.fromkeys(kinds.values())]

        def wanted(each: object) -> bool:
            return isinstance(each, Recorded) and isinstance(each.event, events)

        return self._decorator(self.topic(*topics, schema=self._schema), wanted)

    def carry(self, name: str) -> Carry:
        """Return a way to pass values on under another key (a repartition topic): `send` them, and `watch` it."""
        topic = self._own(name, retention=timedelta(days=7))
        channel = self.topic(self.connection.physical(topic.name), schema=CarriedSchema())
        self.carries[name] = Carry(topic, channel, self.sent, self._decorator(channel, lambda _: True))
        return self.carries[name]

    def rows(self, name: str) -> Rows:
        """Return a table of rows that stay."""
        return self._kept(Rows(name, self._table(name)))

    def windows(self, name: str, keeping: Keeping, size: timedelta, step: timedelta | None = None) -> Windows:
        """Return a table of windows: tumbling, or hopping by `step`."""
        return self._kept(Windows(name, self._table(name), keeping, size, step or size))

    def sessions(self, name: str, keeping: Keeping, gap: timedelta) -> Sessions:
        """Return a table of sessions."""
        return self._kept(Sessions(name, self._table(name), keeping, gap))

    def joined(
        self,
        name: str,
        keeping: Keeping,
        ends: Callable[[Row], int | None],
        complete: Callable[[Row], tuple[str, Row] | None] = lambda _: None,
        sums: str | None = None,
    ) -> Joined:
        """Return a table of rows that wait for their other half; `sums` names the view of those that have it."""
        joined = self._kept(Joined(name, self._table(name), keeping, ends, complete))
        if sums is not None:
            self._kept(Sums(sums, joined.table))
        return joined

    def global_table(self, event: type[E]) -> "Callable[[], GlobalTable[E]]":
        """Return what gives, while the app runs, a full copy of a compacted topic, the same on every worker."""
        self._copied.append(event)
        return lambda: self._opened[event]

    def publisher(self, name: str, event: type[E]) -> Publisher[E]:
        """Return what puts events of views' own on their topic, in the trace and the saga of what they follow from."""
        self._told.append(event)
        return Publisher(self, f"live.{self.of}/{name}", event)

    @property
    def viewing(self) -> Viewing:
        """What these views have to do with the log."""
        watches, copies, tells = tuple(self._watched), tuple(self._copied), tuple(self._told)
        return Viewing(self.of, watches, copies, tells, tuple(self.own_topics()))

    def wants(self, headers: Sequence[tuple[str, bytes]]) -> bool:
        """Tell whether a record with these headers is for a view: an event of theirs, or no event at all."""
        kind = next((value for name, value in headers if name == "ce_type"), None)
        return kind is None or kind.decode() in self._wanted

    async def settled(self) -> None:
        """Wait until all that was sent so far is on the brokers. Raises: what kept something from it."""
        await self.sent.settled()

    async def lags(self) -> Mapping[TP, int]:
        """Return how many records of each partition that is here are not finished; none before it runs.

        Raises: KafkaError when brokers do not say where partitions end.
        """
        return {} if self._event_log is None else await cast("Consumer", self.consumer).lags()

    def note_loss(self, partition: TP, first: int, to: int) -> None:
        """Take note that events from `first` on were gone before they were read, and that views went on at `to`."""
        topic = self.connection.logical(partition.topic)
        self.counters.lost[topic] += abs(to - first)
        self._note(warn_of_loss(f"the views of {self.of}", (topic, partition.partition), first, to))

    async def compare_topics(self) -> None:
        """Name the topics that were deleted and created again since this worker has first seen them, once it runs.

        Rows take each offset once, so that views count nothing of the new topic below the old one's end, until they are reset.
        Raises: LogUnavailable.
        """
        if self._event_log is None:
            return
        names = {contract_of(event).topic.name for event in self._watched}
        found = {name: each.id for name, each in (await self._event_log.port.identities(names)).items() if each.id}
        path = Path(self.conf.datadir) / _TOPICS
        known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for name, topic_id in found.items():
            if known.get(name, topic_id) != topic_id:
                sentence = f"{name}: {RECREATED}"
                _log.warning("the views of %s: %s; `eventlib live reset` computes them again", self.of, sentence)
                self.counters.lost[name] += 1
                self._note(sentence)
        if found.items() - known.items():
            path.write_text(json.dumps(known | found), encoding="utf-8")

    def _note(self, sentence: str) -> None:
        if sentence not in self.losses:  # the group's position stays where it was until something is read
            self.losses.append(sentence)
            (Path(self.conf.datadir) / _LOST).write_text("\n".join(self.losses), encoding="utf-8")

    async def failed(self) -> None:
        """Wait until the app fails. Raises: what it failed with."""
        await self._crashed.wait()
        if self.crash_reason is not None:
            raise self.crash_reason

    async def on_first_start(self) -> None:
        """Open the log, and create the topics of the views; Faust's own creation would miss their settings.

        It asks for nothing that the views have no right to.
        """
        if self.connection.refusal is not None:
            raise WiringError(self.connection.refusal)
        url = self.connection.url
        opened = partial(open_log, url, self.choreography, read_only=True)
        log = await self.startup.enter(self._stack, f"the log {url}", opened)
        directory = self.directory(log.port.log_id)
        make_private_directory(directory.parent)
        with suppress(FileNotFoundError):
            self.losses = (directory / _LOST).read_text(encoding="utf-8").splitlines()
        with catch_warnings(action="ignore", category=AlreadyConfiguredWarning):  # tables ask for it later
            self.conf.datadir = directory
        if self.conf.web_enabled:  # a port is one worker's on this machine: when it is back, none waits for the dead
            self.conf.consumer_group_instance_id = f"{gethostname()}-{self.conf.web_port}"
        await super().on_first_start()
        await self.startup.run(f"what the views of {self.of} write", partial(self._prepare, log))
        for event in self.viewing.copies:
            copied = f"the copy of {contract_of(event).topic.name}"
            self._opened[event] = await self.startup.enter(self._stack, copied, partial(GlobalTable, log, event))
        self._event_log = log

    async def _prepare(self, log: EventLog) -> None:
        viewing = self.viewing
        await log.codec.prepare((contract_of(event).topic.name, event) for event in viewing.tells)
        await log.port.create_topics(viewing.topics)

    async def on_stop(self) -> None:
        """Close the log."""
        await super().on_stop()
        self._event_log = None
        await self._stack.aclose()

    def directory(self, log_id: str) -> Path:
        """Return where this worker's tables are, beside those of other logs, services and ports."""
        place = log_id.replace("/", "~")
        return Path(runtime_config().state_dir) / "live" / place / f"{self.of}-{self.conf.web_port}"

    def own_topics(self) -> list[Topic]:
        """Return the topics that only these views write: between views, and their tables' changelogs."""
        topics = [*(carry.topic for carry in self.carries.values()), *map(self.topic_of, self.views.values())]
        return [*{topic.name: topic for topic in topics}.values()]

    def topic_of(self, rows: Rows) -> Topic:
        """Return a table's changelog: its rows are in the partition that their key, as a whole, belongs to."""
        return self._own(f"{rows.table.name}.changelog", compacted=True)

    def changelog_of(self, table: str) -> str:
        """Return what a table's changelog is called on the cluster."""
        return self.connection.physical(f"live.{self.of}.{table}.changelog")

    def _own(self, name: str, **kept: Any) -> Topic:
        return Topic(f"live.{self.of}.{name}", partitions=self._partitions, **kept)

    def _table(self, name: str) -> LiveTable:
        table = self.Table(name, key_type=bytes, value_type=bytes, partitions=self._partitions)
        return cast("LiveTable", table)

    def _kept(self, rows: R) -> R:
        self.views[rows.name] = rows
        return rows

    def _decorator(self, channel: TopicT, wanted: Callable[[object], bool]) -> Callable[[Agent], Any]:
        def decorate(function: Agent) -> Any:
            async def watch(stream: StreamT[Any]) -> None:
                await function(cast("faust.Stream[Any]", stream).filter(wanted))

            return self.agent(channel, name=f"{self.of}.{function.__name__}")(watch)

        return decorate

    def _new_web(self) -> Pages:
        return Pages(self)

    def _new_transport(self) -> Transport:
        bound_fetches(self.connection.options.inflated_bytes)
        return Transport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> Transport:
        return Transport(self.conf.broker_producer, self)


def _settings(connection: dict[str, Any]) -> dict[str, Any]:
    return {
        **connection,
        "store": "rocksdb://",
        "processing_guarantee": "at_least_once",
        "Table": LiveTable,
        "topic_disable_leader": True,
        "table_standby_replicas": 0,
        "consumer_auto_offset_reset": "earliest",
        "broker_commit_interval": _COMMIT_S,
        "producer_linger": _LINGER_S,
        "agent_supervisor": mode.CrashingSupervisor,
        "autodiscover": False,
        "worker_redirect_stdouts": False,
        "web_bind": DEFAULT_HOST,
    }
