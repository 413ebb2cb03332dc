"""Outboxes, sinks and webhooks as a cluster runs them: from their declarations, what each needs, and no more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.topic_configs import DECLARATIONS, MOST_REPLICAS, OWNERS, creation_configs
from eventlib.manifests.acls import (
    BOTH,
    READS,
    WRITES,
    Kind,
    Operation,
    Right,
    User,
    asked,
    names_of,
    topic_rights,
    transaction_rights,
    user_name,
)
from eventlib.manifests.topics import TopicSpec
from eventlib.model.choreography import Choreography
from eventlib.model.topic import Topic
from eventlib.registry.records import SCHEMAS
from eventlib.webhooks.ledger import WEBHOOKS, service_of
from eventlib.webhooks.subscribers import Subscriber

if TYPE_CHECKING:
    from eventlib.sinks.declaration import SqlSink  # which needs SQLAlchemy

SUBSCRIBERS = "webhooks.toml"
HTTPS, POSTGRESQL = 443, 5432


@dataclass(frozen=True, slots=True)
class ConnectorProgram:
    """What brings events to the log or out of it: its command, its user, the port that it connects to, the files that it reads.

    `topics` are its own, which have to be there before. What is secret is in a Secret of Kubernetes, as variables:
    `EVENTLIB_OUTBOX_DATABASE` or `EVENTLIB_SINK_DATABASE`, and `PGPASSWORD`; and the secrets of subscribers (`env:NAME`).
    """

    name: str
    command: tuple[str, ...]
    user: User
    port: int
    files: Mapping[str, str] = field(default_factory=dict)
    topics: Sequence[TopicSpec] = ()


def relay_program(
    choreography: Choreography, name: str, own: Topic, options: KafkaOptions, views: Sequence[Viewing] = ()
) -> ConnectorProgram:
    """Return what relays an outbox, whose progress is on the topic `own`: it writes what no service emits, and reads no event."""
    writes = topic_rights(asked(choreography, views), WRITES, options)
    user = _user(f"{name}-relay", f"relays the outbox {name}", [f"_outbox.{name}"], [], [own], options, writes)
    command = ("eventlib", "outbox", "relay", "--name", name)
    program = f"{name}-relay".replace("_", "-")
    return ConnectorProgram(program, command, user, POSTGRESQL, topics=[_topic(own, options)])


def sink_program(sink: "SqlSink", where: str, options: KafkaOptions) -> ConnectorProgram:
    """Return what runs a sink that is declared at `where`, module:name: it reads the events that it handles, and writes none."""
    program = f"{sink.name}-sink".replace("_", "-")  # Kubernetes has no '_' in names
    user = _user(program, f"runs the sink {sink.name}", [f"_sink.{sink.name}"], sink.topics, [], options)
    return ConnectorProgram(program, ("eventlib", "sink", "run", where), user, POSTGRESQL)


def webhook_program(
    subscribers: Mapping[str, Subscriber], choreography: Choreography, file: str, options: KafkaOptions
) -> ConnectorProgram:
    """Return what delivers webhooks to the subscribers in a file, of which this is the text: it writes how far they are."""
    inputs = [topic for each in subscribers.values() for topic in each.topics(choreography)]
    user = _user("webhooks", "delivers webhooks", map(service_of, subscribers), inputs, [WEBHOOKS], options)
    topics, command = [_topic(WEBHOOKS, options)], ("eventlib", "webhook", "run")
    return ConnectorProgram("webhooks", command, user, HTTPS, {SUBSCRIBERS: file}, topics)


def _user(  # noqa: PLR0913, PLR0917  what connectors differ in
    name: str,
    about: str,
    services: Iterable[str],
    inputs: Sequence[Topic],
    own: Sequence[Topic],
    options: KafkaOptions,
    more: Iterable[Right] = (),
) -> User:
    """Return a user that reads inputs, and shares the work under the names of `services` with other processes."""
    user = user_name(options, name)
    rights = [*topic_rights(names_of([*inputs, SCHEMAS, DECLARATIONS]), READS, options), *more]
    rights += topic_rights(names_of([*own, OWNERS]), BOTH, options)
    for service in services:
        rights.append(Right(Kind.GROUP, options.group(service), (Operation.READ, Operation.DESCRIBE)))
        rights += transaction_rights(user, [], options, also=[service])
    return User(user, about, tuple(rights))


def _topic(own: Topic, options: KafkaOptions) -> TopicSpec:
    replicas = options.replication_factor or MOST_REPLICAS
    configs = creation_configs(own, replicas, options)
    return TopicSpec(f"{options.prefix}{own.name}", own.partitions, replicas, configs)
