"""Who may do what on a cluster, and no more: derived from what each service handles and emits.

Source: Apache Kafka's documentation, "Authorization and ACLs", the operations that each request needs.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.topic_configs import DECLARATIONS, OWNERS
from eventlib.model.choreography import Choreography
from eventlib.model.event import contract_of
from eventlib.model.service import Service
from eventlib.model.topic import Topic
from eventlib.operations.shared_notes import OPERATIONS
from eventlib.personal.opening import has_personal
from eventlib.personal.receipt import ERASURES
from eventlib.registry.records import SCHEMAS, WRITERS


class Kind(StrEnum):
    """What a right is about, as Kafka's tools call it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONS = "transactional-id"


class Operation(StrEnum):
    """What may be done, as Kafka's tools call it."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER_CONFIGS = "AlterConfigs"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class Right(NamedTuple):
    """Some operations on one thing, or on all whose names begin so."""

    kind: Kind
    name: str
    operations: tuple[Operation, ...]
    is_prefix: bool = False


class User(NamedTuple):
    """A principal of the cluster, its purpose, and the rights that this needs."""

    name: str
    about: str
    rights: tuple[Right, ...]


_SEES = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
READS = (Operation.READ, *_SEES)
WRITES = (Operation.WRITE, *_SEES)
BOTH = (Operation.READ, Operation.WRITE, *_SEES)


def users_of(choreography: Choreography, options: KafkaOptions, views: Sequence[Viewing]) -> list[User]:
    """Return each service's user, that of its live views, and those of the people and programs around them.

    Guarantee: a service may write only the topics of the events that it emits, and read only those of the events that
    it handles, besides what is its own; views, those that they publish and watch.
    """
    return [
        *(_service(service, options) for service in choreography.services),
        *(_viewer(viewing, options) for viewing in views),
        _outside(choreography, options, views),
        _operator(choreography, options, views),
        _analyst(choreography, options),
        _scaler(choreography, options),
        _installer(choreography, options, views),
        _registry(options),
    ]


def _service(service: Service, options: KafkaOptions) -> User:
    own = (service.changelog, service.parked, service.journal)
    # What it emits, too: its next version compares that with its own decisions (`eventlib run --shadow-first`).
    reads = names_of([*service.inputs, *service.outputs, service.control, SCHEMAS, DECLARATIONS])
    writes = names_of(_held_twice(service.outputs))
    both = names_of([*own, OWNERS, OPERATIONS]) | reads & writes
    user = user_name(options, service.name)
    return User(
        user,
        f"runs service {service.name}",
        (
            *topic_rights(reads - both, READS, options),
            *topic_rights(writes - both, WRITES, options),
            *topic_rights(both, BOTH, options),
            Right(Kind.GROUP, options.group(service.name), (Operation.READ, Operation.DESCRIBE)),
            *transaction_rights(user, [service], options),
        ),
    )


def _viewer(viewing: Viewing, options: KafkaOptions) -> User:
    """Return who watches: reads what its views watch, and writes what they publish and what is between them."""
    user = user_name(options, viewing.name)
    return User(
        user,
        f"runs the live views of service {viewing.service}",
        (
            *topic_rights(names_of([*viewing.inputs, SCHEMAS, DECLARATIONS]), READS, options),
            *topic_rights(names_of(viewing.outputs), WRITES, options),
            *topic_rights(names_of(viewing.own_topics), BOTH, options),
            Right(Kind.GROUP, options.group(viewing.group), (Operation.READ, Operation.DESCRIBE)),
            *transaction_rights(user, [], options),
        ),
    )


def _outside(choreography: Choreography, options: KafkaOptions, views: Sequence[Viewing]) -> User:
    """Return who asks: puts requests and facts on the log that no service emits, and answers from all that is there."""
    about = "the HTTP API, imports: publishes what no service emits, and reads everything"
    return _beside("outside", about, asked(choreography, views), choreography, options)


def asked(choreography: Choreography, views: Sequence[Viewing]) -> set[str]:
    """Return the topics of what no service emits."""
    emitted = {event for service in choreography.services for event in service.emits}
    emitted |= {event for viewing in views for event in viewing.tells}
    own = (event for event in choreography.events if contract_of(event).external is None)
    return names_of(_held_twice([contract_of(event).topic for event in own if event not in emitted]))


def _operator(choreography: Choreography, options: KafkaOptions, views: Sequence[Viewing]) -> User:
    """Return who looks after it: reads everything, instructs services about what is parked, and sends events by hand."""
    acts = names_of(
        [*(service.control for service in choreography.services), OPERATIONS, *erasure_topics(choreography)]
    )
    acts |= asked(choreography, views)
    about = "people with the command line or the console: read everything, send events, and act on what is parked"
    user = _beside("operator", about, acts, choreography, options)
    groups = (Right(Kind.GROUP, options.group(viewing.group), (Operation.DESCRIBE,)) for viewing in views)
    between = names_of(topic for viewing in views for topic in viewing.own_topics)
    return user._replace(rights=(*user.rights, *topic_rights(between, READS, options), *groups))


def _beside(name: str, about: str, writes: set[str], choreography: Choreography, options: KafkaOptions) -> User:
    """Return who reads everything, sees who runs what, and writes some topics."""
    user = user_name(options, name)
    groups = (Right(Kind.GROUP, options.group(each.name), (Operation.DESCRIBE,)) for each in choreography.services)
    return User(
        user,
        about,
        (
            *topic_rights(_everything(choreography) - writes, READS, options),
            *topic_rights(writes, BOTH, options),
            *groups,
            *transaction_rights(user, [], options),
        ),
    )


def _everything(choreography: Choreography) -> set[str]:
    own = (SCHEMAS, DECLARATIONS, OWNERS, OPERATIONS)
    return names_of([*choreography.topics, *own, *erasure_topics(choreography)])


def erasure_topics(choreography: Choreography) -> tuple[Topic, ...]:
    """Return the topic of erasures, for an application that has personal fields."""
    return (ERASURES,) if has_personal(choreography) else ()


def _analyst(choreography: Choreography, options: KafkaOptions) -> User:
    return User(
        user_name(options, "analytics"),
        "Spark jobs: read everything, write nothing",
        (
            *topic_rights(_everything(choreography), READS, options),
            Right(Kind.GROUP, f"{options.prefix}spark-kafka-", (Operation.READ, Operation.DESCRIBE), is_prefix=True),
        ),
    )


def _scaler(choreography: Choreography, options: KafkaOptions) -> User:
    """Return who sees how far services lag; to see a group's positions is to see them for topics that one may see."""
    topics = names_of(topic for service in choreography.services for topic in service.inputs)
    groups = (Right(Kind.GROUP, options.group(each.name), (Operation.DESCRIBE,)) for each in choreography.services)
    about = "scales services: sees how far they lag, and reads nothing"
    return User(user_name(options, "scaler"), about, (*topic_rights(topics, (Operation.DESCRIBE,), options), *groups))


def _installer(choreography: Choreography, options: KafkaOptions, views: Sequence[Viewing]) -> User:
    """Return who prepares a release: makes the topics, registers the schemas, and has live views begin anew."""
    between = names_of(topic for viewing in views for topic in viewing.own_topics)
    every = _everything(choreography) | names_of([WRITERS])
    operations = (Operation.CREATE, Operation.ALTER_CONFIGS, *BOTH)
    positions = (Operation.DELETE, Operation.DESCRIBE)
    user = user_name(options, "installer")
    return User(
        user,
        "prepares a release: makes topics, registers schemas, resets live views",
        (
            *topic_rights(every, operations, options),
            *topic_rights(between, (Operation.DELETE, *operations), options),
            *(Right(Kind.GROUP, options.group(viewing.group), positions) for viewing in views),
            *transaction_rights(user, choreography.services, options, also=[SCHEMAS.name]),
        ),
    )


def _registry(options: KafkaOptions) -> User:
    user = user_name(options, "registry")
    return User(
        user,
        "serves schemas to others",
        (
            *topic_rights(names_of([DECLARATIONS]), READS, options),
            *topic_rights(names_of([SCHEMAS, WRITERS, OWNERS]), BOTH, options),
            Right(Kind.GROUP, options.group(SCHEMAS.name), (Operation.READ, Operation.DESCRIBE)),
            *transaction_rights(user, [], options, also=[SCHEMAS.name]),
        ),
    )


def transaction_rights(
    user: str, services: Iterable[Service], options: KafkaOptions, also: Iterable[str] = ()
) -> list[Right]:
    """Return the rights to the ids that a user's processes write under, and to the locks of the tasks it takes."""
    names = [options.model_copy(update={"sasl": "SCRAM-SHA-512", "user": user}).writers]
    names += [options.locks(name) for name in [*(each.name for each in services), *also]]
    operations = (Operation.WRITE, Operation.DESCRIBE)
    return [Right(Kind.TRANSACTIONS, name, operations, is_prefix=True) for name in names]


def user_name(options: KafkaOptions, name: str) -> str:
    """Return the user of a service, or of another client."""
    return f"{options.prefix}{options.application}-{name}"


def _held_twice(topics: Iterable[Topic]) -> list[Topic]:
    return [each for topic in topics for each in ((topic, topic.latest_topic) if topic.latest else (topic,))]


def names_of(topics: Iterable[Topic]) -> set[str]:
    """Return the names of topics."""
    return {topic.name for topic in topics}


def topic_rights(names: Iterable[str], operations: tuple[Operation, ...], options: KafkaOptions) -> list[Right]:
    """Return the same rights to several topics."""
    return [Right(Kind.TOPIC, f"{options.prefix}{name}", operations) for name in sorted(names)]
