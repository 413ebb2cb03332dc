"""The topics of a choreography with the settings that they need on a cluster, before the first service starts."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.options import KafkaOptions
from eventlib.log.kafka.topic_configs import DECLARATIONS, MOST_REPLICAS, OWNERS, creation_configs
from eventlib.manifests.acls import erasure_topics
from eventlib.model.choreography import Choreography
from eventlib.model.topic import Topic
from eventlib.operations.shared_notes import OPERATIONS
from eventlib.registry.records import SCHEMAS, WRITERS


class TopicSpec(NamedTuple):
    """A topic as it has to be on the cluster."""

    name: str
    partitions: int
    replicas: int
    configs: Mapping[str, str]


def topic_specs(choreography: Choreography, options: KafkaOptions, views: Iterable[Viewing]) -> list[TopicSpec]:
    """Return all that the services and their live views need, what the log keeps for itself included."""
    replicas = options.replication_factor or MOST_REPLICAS
    between = (topic for viewing in views for topic in viewing.own_topics)
    every: list[Topic] = [*choreography.topics, *between, SCHEMAS, WRITERS, OWNERS, DECLARATIONS, OPERATIONS]
    every += erasure_topics(choreography)
    return [
        TopicSpec(f"{options.prefix}{each.name}", each.partitions, replicas, creation_configs(each, replicas, options))
        for each in sorted(every, key=lambda topic: topic.name)
    ]
