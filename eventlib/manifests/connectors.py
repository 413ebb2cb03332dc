"""Outboxes, sinks and webhooks as a cluster runs them: from their declarations, what each needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import User
from eventlib.manifests.databases import relay_user, sink_user, topic_of, webhook_user
from eventlib.manifests.topics import TopicSpec
from eventlib.model.choreography import Choreography
from eventlib.model.topic import Topic

SUBSCRIBERS = "webhooks.toml"
HTTPS, POSTGRESQL = 443, 5432


@dataclass(frozen=True, slots=True)
class ConnectorProgram:
    """What brings events to the log or out of it: its command, its user, the port that it connects to, the files that it reads.

    What is secret is in a Secret of Kubernetes, as variables: `EVENTLIB_OUTBOX_DATABASE` or `EVENTLIB_SINK_DATABASE`, and
    `PGPASSWORD`; and the secrets of subscribers (`env:NAME`).
    """

    name: str
    command: tuple[str, ...]
    user: User
    port: int
    files: Mapping[str, str] = field(default_factory=dict)
    topics: Sequence[TopicSpec] = ()


def relay_program(choreography: Choreography, name: str, own: Topic, options: KafkaOptions) -> ConnectorProgram:
    """Return what relays an outbox, whose progress is on the topic `own`."""
    user, command = relay_user(choreography, name, own, options), ("eventlib", "outbox", "relay", "--name", name)
    program = f"{name}-relay".replace("_", "-")
    return ConnectorProgram(program, command, user, POSTGRESQL, topics=[topic_of(own, options)])


def sink_program(name: str, where: str, inputs: Iterable[Topic], options: KafkaOptions) -> ConnectorProgram:
    """Return what runs a sink that is declared at `where`, module:name."""
    user = sink_user(name, inputs, options)
    return ConnectorProgram(f"{name}-sink".replace("_", "-"), ("eventlib", "sink", "run", where), user, POSTGRESQL)


def webhook_program(
    services: Iterable[str], inputs: Iterable[Topic], own: Topic, file: str, options: KafkaOptions
) -> ConnectorProgram:
    """Return what delivers webhooks to the subscribers in a file, of which this is the text."""
    user, topics = webhook_user(services, inputs, own, options), [topic_of(own, options)]
    command = ("eventlib", "webhook", "run")
    return ConnectorProgram("webhooks", command, user, HTTPS, {SUBSCRIBERS: file}, topics)
