"""Who brings events from a database to a cluster, back, and to subscribers: what each of them needs, and no more."""

from collections.abc import Iterable, Sequence

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


def relay_user(
    choreography: Choreography, name: str, own: Topic, options: KafkaOptions, views: Sequence[Viewing] = ()
) -> User:
    """Return the user of an outbox's relay: it writes what no service emits, and reads no event."""
    user = user_name(options, f"{name}-relay")
    writes = asked(choreography, views)
    topics = (
        *topic_rights({SCHEMAS.name, DECLARATIONS.name}, READS, options),
        *topic_rights(writes, WRITES, options),
        *topic_rights({own.name, OWNERS.name}, BOTH, options),
    )
    return User(user, f"relays the outbox {name}", (*topics, *_shares(user, f"_outbox.{name}", options)))


def sink_user(name: str, inputs: Iterable[Topic], options: KafkaOptions) -> User:
    """Return the user of a sink: it reads the events that it handles, and writes none."""
    user = user_name(options, f"{name}-sink".replace("_", "-"))  # Kubernetes has no '_' in names
    topics = (
        *topic_rights(names_of([*inputs, SCHEMAS, DECLARATIONS]), READS, options),
        *topic_rights({OWNERS.name}, BOTH, options),
    )
    return User(user, f"runs the sink {name}", (*topics, *_shares(user, f"_sink.{name}", options)))


def webhook_user(services: Iterable[str], inputs: Iterable[Topic], own: Topic, options: KafkaOptions) -> User:
    """Return the user of webhooks: it reads what subscribers get, and writes how far they are; `services` share that work."""
    user = user_name(options, "webhooks")
    topics = (
        *topic_rights(names_of([*inputs, SCHEMAS, DECLARATIONS]), READS, options),
        *topic_rights({own.name, OWNERS.name}, BOTH, options),
    )
    shares = [right for service in services for right in _shares(user, service, options)]
    return User(user, "delivers webhooks", (*topics, *shares))


def topic_of(own: Topic, options: KafkaOptions) -> TopicSpec:
    """Return a topic of their own, which has to be there before."""
    replicas = options.replication_factor or MOST_REPLICAS
    configs = creation_configs(own, replicas, options)
    return TopicSpec(f"{options.prefix}{own.name}", own.partitions, replicas, configs)


def _shares(user: str, service: str, options: KafkaOptions) -> list[Right]:
    """Return the rights to share work with other processes."""
    group = Right(Kind.GROUP, options.group(service), (Operation.READ, Operation.DESCRIBE))
    return [group, *transaction_rights(user, [], options, also=[service])]
