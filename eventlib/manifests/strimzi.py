"""Topics and users as resources of Strimzi, the operator that runs Kafka on Kubernetes.

Source: Strimzi's documentation of KafkaTopic and KafkaUser, API version v1.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from eventlib.manifests.acls import Kind, Right, User
from eventlib.manifests.topics import TopicSpec

Resource = dict[str, Any]

API = "kafka.strimzi.io/v1"
_KINDS = {Kind.TOPIC: "topic", Kind.GROUP: "group", Kind.TRANSACTIONS: "transactionalId"}
_UNFIT = re.compile(r"[^a-z0-9.-]+")


def topic_resources(topics: Iterable[TopicSpec], cluster: str) -> Iterator[Resource]:
    """Return a KafkaTopic for each topic."""
    for topic in topics:
        yield {
            **_head("KafkaTopic", topic.name, cluster),
            "spec": {
                "topicName": topic.name,
                "partitions": topic.partitions,
                "replicas": topic.replicas,
                "config": dict(sorted(topic.configs.items())),
            },
        }


def user_resources(users: Iterable[User], cluster: str) -> Iterator[Resource]:
    """Return a KafkaUser for each user, who comes with a password of Strimzi's making (SCRAM-SHA-512)."""
    for user in users:
        yield {
            **_head("KafkaUser", user.name, cluster),
            "spec": {
                "authentication": {"type": "scram-sha-512"},
                "authorization": {"type": "simple", "acls": [_acl(right) for right in user.rights]},
            },
        }


def _acl(right: Right) -> dict[str, Any]:
    return {
        "resource": {
            "type": _KINDS[right.kind],
            "name": right.name,
            "patternType": "prefix" if right.is_prefix else "literal",
        },
        "operations": [operation.value for operation in right.operations],
        "host": "*",
    }


def _head(kind: str, name: str, cluster: str) -> Resource:
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": _resource_name(name), "labels": {"strimzi.io/cluster": cluster}},
    }


def _resource_name(name: str) -> str:
    """Return a name that Kubernetes takes: a topic's own may have large letters and '_', which it may not."""
    return _UNFIT.sub("-", name.lower()).strip("-.")
