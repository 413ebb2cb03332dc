"""A real broker that lets everybody do what the choreography's generated rights say, over TLS, and nothing else."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eventlib.devtools.kafka import Cluster, ClusterConfig, Sasl, Security, running_cluster
from eventlib.manifests.acls import Kind, User
from eventlib.manifests.topics import TopicSpec

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding

_ADMIN = "admin"
_ANY: Any = None
_KINDS = {
    Kind.TOPIC: "TOPIC",
    Kind.GROUP: "GROUP",
    Kind.TRANSACTIONS: "TRANSACTIONAL_ID",
}


@contextmanager
def authorized_broker(users: Iterable[User], topics: Iterable[TopicSpec]) -> Iterator[Cluster]:
    """Run a node with an authorizer, on which topics and rights were made by another client than ours."""

    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        NewTopic,
        ResourcePatternType,
        ResourceType,
    )

    every = AclBindingFilter(
        ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY
    )
    users = [*users]
    passwords = {_ADMIN: "admin-secret", **{user.name: f"{user.name}-secret" for user in users}}
    security = Security(sasl=Sasl.SCRAM, tls=True, authorize=True, users=passwords)
    with running_cluster(ClusterConfig(security=security)) as cluster:
        admin = AdminClient(client_config(cluster, _ADMIN))
        made = admin.create_topics(
            [NewTopic(each.name, each.partitions, each.replicas, config=dict(each.configs)) for each in topics]
        )
        given = admin.create_acls([binding for user in users for binding in _bindings(user)])
        for each in (*made.values(), *given.values()):
            each.result(30)
        while len(admin.describe_acls(every).result(30)) < len(given):  # a node hears of them a moment later
            time.sleep(0.05)
        yield cluster


def client_config(cluster: Cluster, user: str) -> dict[str, Any]:
    """Return what a client of librdkafka needs to come as a user."""
    environment: Mapping[str, str] = cluster.environment(user)
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": environment["EVENTLIB_KAFKA_TLS_CA"],
        "sasl.mechanism": environment["EVENTLIB_KAFKA_SASL"],
        "sasl.username": user,
        "sasl.password": environment["EVENTLIB_KAFKA_PASSWORD"],
    }


def _bindings(user: User) -> "Iterator[AclBinding]":
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    for right in user.rights:
        pattern = ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL
        for operation in right.operations:
            yield AclBinding(
                ResourceType[_KINDS[right.kind]],
                right.name,
                pattern,
                f"User:{user.name}",
                "*",
                AclOperation[operation.name],
                AclPermissionType.ALLOW,
            )
