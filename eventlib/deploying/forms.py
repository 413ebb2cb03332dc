"""What a cluster has to be given, as files: for Kubernetes, for Strimzi's operator, or for Kafka's own tools."""

from collections.abc import Iterable, Sequence

from eventlib.choreography import Choreography
from eventlib.deploying.commands import HEAD, right_commands, topic_commands
from eventlib.deploying.kubernetes import Cluster
from eventlib.deploying.rights import User, users_of
from eventlib.deploying.strimzi import topic_resources, user_resources
from eventlib.deploying.topics import Wanted, wanted_topics
from eventlib.deploying.yaml_text import documents
from eventlib.log.kafka.options import KafkaOptions
from eventlib.variables import read_settings
from eventlib.viewing import Viewing


def for_strimzi(choreography: Choreography, views: Sequence[Viewing]) -> dict[str, str]:
    """Return KafkaTopics and KafkaUsers of the cluster `kafka`. Raises: SettingsError."""
    topics, users = _needed(choreography, views)
    files = {
        "topics.yaml": documents(topic_resources(topics, _CLUSTER)),
        "users.yaml": documents(user_resources(users, _CLUSTER)),
    }
    return {**files, **_kustomization(files)}


def for_kubernetes(choreography: Choreography, views: Sequence[Viewing]) -> dict[str, str]:
    """Return what runs each service and scales it, its live views, and the alerts. Raises: SettingsError."""
    place = Cluster(read_settings(KafkaOptions, {}), _CLUSTER)
    files = {f"{service.name}.yaml": documents(place.resources(service)) for service in choreography.services}
    files |= {f"{viewing.name}.yaml": documents(place.views(viewing)) for viewing in views}
    files["scaler.yaml"] = documents(place.scaler())
    files["alerts.yaml"] = documents([place.alerts(choreography)])
    return {**files, **_kustomization(files)}


def for_tools(choreography: Choreography, views: Sequence[Viewing]) -> dict[str, str]:
    """Return scripts with `kafka-topics.sh` and `kafka-acls.sh`. Raises: SettingsError."""
    topics, users = _needed(choreography, views)
    return {
        "topics.sh": HEAD + "\n".join(topic_commands(topics)) + "\n",
        "rights.sh": HEAD + "\n".join(right_commands(users)) + "\n",
    }


def _kustomization(files: Iterable[str]) -> dict[str, str]:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return {"kustomization.yaml": documents([{**head, "resources": sorted(files)}])}


def _needed(choreography: Choreography, views: Sequence[Viewing]) -> tuple[list[Wanted], list[User]]:
    options = read_settings(KafkaOptions, {})
    return wanted_topics(choreography, options, views), users_of(choreography, options, views)


_CLUSTER = "kafka"
