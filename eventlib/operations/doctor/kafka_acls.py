"""Checks this user's rights on a cluster against the services' needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from eventlib.contracts.view_manifest import Viewing
from eventlib.log.kafka.admin import (
    Operation,
    TopicState,
    creatable,
    may_read_group,
    may_write_transactions,
    topic_states,
)
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.failures import Code
from eventlib.model.choreography import Choreography
from eventlib.model.topic import Topic
from eventlib.operations.doctor.finding import Diagnosis, error, fine, some

_NEEDED = (Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)


async def examine_rights(cluster: Cluster, choreography: Choreography, topics: Sequence[Topic]) -> list[Diagnosis]:
    """Check each right that the services need, without using it."""
    states, _ = await topic_states(cluster, [topic.name for topic in topics])
    found = [
        *_examine_topics(cluster, states, dict.fromkeys(_NEEDED, states)),
        *await _examine_creation(cluster, [topic for topic in topics if states[topic.name].code == _MISSING]),
        *await _examine_services(cluster, choreography),
    ]
    return found or [fine("rights", f"{_user(cluster)} may do all that the services need")]


async def examine_view_rights(cluster: Cluster, viewing: Viewing) -> list[Diagnosis]:
    """Check each right that a service's live views need; the services themselves do not need them."""
    states, _ = await topic_states(cluster, [topic.name for topic in viewing.topics])
    needs = {
        Operation.READ: _names(*viewing.inputs, *viewing.own_topics),
        Operation.WRITE: _names(*viewing.outputs, *viewing.own_topics),
        Operation.DESCRIBE_CONFIGS: _names(*viewing.topics),
    }
    group = cluster.options.group(viewing.group)
    found = [
        *_examine_topics(cluster, states, needs),
        *await _examine_creation(cluster, [topic for topic in viewing.topics if states[topic.name].code == _MISSING]),
        *([] if await may_read_group(cluster, group) else [_lacking(cluster, "join", [group], "group", "Read")]),
    ]
    what = f"live views of {viewing.service} would not run:"
    return [replace(each, verdict="warning", what=f"{what} {each.what}") for each in found]


def _names(*topics: Topic) -> list[str]:
    return [topic.name for topic in topics]


def _examine_topics(
    cluster: Cluster, states: Mapping[str, TopicState], needs: Mapping[Operation, Collection[str]]
) -> list[Diagnosis]:
    hidden = sorted(name for name, state in states.items() if state.code == Code.TOPIC_AUTHORIZATION_FAILED)
    found = [_lacking(cluster, "see", hidden, "topic", "Describe")] if hidden else []
    for operation, names in needs.items():
        denied = [name for name in names if not states[name].code and not operation.among(states[name].operations)]
        if denied:
            what = operation.name.lower().replace("describe_configs", "read the settings of")
            found.append(_lacking(cluster, what, sorted(denied), "topic", _title(operation)))
    return found


async def _examine_creation(cluster: Cluster, missing: Sequence[Topic]) -> list[Diagnosis]:
    """Ask the cluster to validate the creation of missing topics."""
    if not missing:
        return []
    refused = await creatable(cluster, missing)
    denied = sorted(name for name, (code, _) in refused.items() if code == Code.TOPIC_AUTHORIZATION_FAILED)
    found = [_lacking(cluster, "create", denied, "topic", "Create")] if denied else []
    for name, (code, sentence) in refused.items():
        if code not in {Code.TOPIC_AUTHORIZATION_FAILED, Code.TOPIC_ALREADY_EXISTS}:
            remedy = "see EVENTLIB_KAFKA_REPLICATION_FACTOR, and the brokers' policies"
            return [*found, error("topics", f"topic {name!r} cannot be created: {sentence or f'error {code}'}", remedy)]
    return found


async def _examine_services(cluster: Cluster, choreography: Choreography) -> list[Diagnosis]:
    options = cluster.options
    names = [service.name for service in choreography.services]
    groups = [options.group(name) for name in names]
    ids = [*(f"{options.locks(name)}0" for name in names), options.writers]
    no_groups = [group for group in groups if not await may_read_group(cluster, group)]
    no_ids = [each for each in ids if not await may_write_transactions(cluster, each)]
    found = [_lacking(cluster, "join", no_groups, "group", "Read")] if no_groups else []
    if no_ids:
        prefix = f"{options.prefix}{options.application}"
        found.append(_lacking(cluster, "run transactions under", [f"{prefix}…"], "transactional-id", "Write", prefix))
    return found


def _lacking(
    cluster: Cluster, what: str, names: list[str], kind: str, operation: str, prefix: str | None = None
) -> Diagnosis:
    shown = [cluster.physical(name) if kind == "topic" else name for name in names]
    target = f"{prefix} --resource-pattern-type prefixed" if prefix else shown[0]
    more = " (and so on)" if len(shown) > 1 else ""
    return error(
        "rights",
        f"{_user(cluster)} may not {what} {some(shown)}",
        f"kafka-acls.sh --add --allow-principal 'User:{cluster.options.user or '…'}' --operation {operation} "
        f"--{kind} {target}{more}",
    )


def _user(cluster: Cluster) -> str:
    options = cluster.options
    return f"user {options.user or options.oauth_client_id}" if options.sasl else "this user"


def _title(operation: Operation) -> str:
    return operation.name.title().replace("_", "")


_MISSING = Code.UNKNOWN_TOPIC_OR_PARTITION
