"""Topics on a cluster: their replicas, and the settings that the choreography does not declare."""

from collections.abc import Mapping, Sequence

from eventlib.doctor.diagnosis import Diagnosis, error, some, warning
from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.questions import TopicState, topic_settings, topic_states
from eventlib.log.kafka.topic_configs import TIMESTAMP_TYPE
from eventlib.topic import Topic

_ENOUGH_BROKERS = 3


async def examine_kafka_topics(cluster: Cluster, topics: Sequence[Topic]) -> list[Diagnosis]:
    """Look at where the topics' replicas are, and at how many an append waits for."""
    states, _ = await topic_states(cluster, [topic.name for topic in topics])
    there = {name: state for name, state in states.items() if not state.code}
    settings = await topic_settings(cluster, there)
    faults = dict[tuple[str, str, str], list[str]]()
    for name, state in there.items():
        known = settings.get(name, {})
        for fault in (*_setting_faults(known), *_replica_faults(state, known, len(cluster.brokers))):
            faults.setdefault(fault, []).append(cluster.physical(name))
    return [
        (error if verdict == "error" else warning)("topics", f"{some(names)}: {what}", remedy)
        for (verdict, what, remedy), names in faults.items()
    ]


def _setting_faults(settings: Mapping[str, str]) -> list[tuple[str, str, str]]:
    found = []
    if settings.get(TIMESTAMP_TYPE) == "LogAppendTime":
        what = (
            f"{TIMESTAMP_TYPE}=LogAppendTime, so the brokers change the times of events, and a replay decides otherwise"
        )
        found.append(("error", what, f"kafka-configs.sh --alter --add-config {TIMESTAMP_TYPE}=CreateTime"))
    if settings.get("unclean.leader.election.enable") == "true":
        what = "unclean.leader.election.enable=true, so a replica that has missed events may lead, and they are lost"
        found.append(("warning", what, "kafka-configs.sh --alter --add-config unclean.leader.election.enable=false"))
    return found


def _replica_faults(state: TopicState, settings: Mapping[str, str], brokers: int) -> list[tuple[str, str, str]]:
    copies = min((len(place.replicas) for place in state.places), default=0)
    in_sync = min((len(place.in_sync) for place in state.places), default=0)
    needed = int(settings.get("min.insync.replicas", 1))
    found = []
    if any(place.leader < 0 for place in state.places):
        found.append(("error", "a partition has no leader", "start the brokers that hold its replicas"))
    elif in_sync < min(needed, copies):
        what = f"{in_sync} of {copies} replicas are in sync, and an append needs {needed}"
        found.append(("error", what, "start the brokers that are away; until then nothing can be written"))
    elif in_sync < copies:
        found.append(
            ("warning", f"{in_sync} of {copies} replicas are in sync", "look at the brokers that lag or are away")
        )
    return found + _durability_faults(copies, needed, brokers)


def _durability_faults(copies: int, needed: int, brokers: int) -> list[tuple[str, str, str]]:
    if copies == 1 and brokers >= _ENOUGH_BROKERS:
        what = f"one replica, on a cluster of {brokers} brokers: with its disk the events are lost"
        return [
            ("warning", what, "kafka-reassign-partitions.sh to three; EVENTLIB_KAFKA_REPLICATION_FACTOR for new ones")
        ]
    if copies > 1 and needed > copies:
        what = f"min.insync.replicas={needed}, and there are {copies} replicas: nothing can be written"
        return [("error", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    if copies > 1 and needed == copies:
        what = f"min.insync.replicas={needed} with as many replicas: when one broker is away, nothing can be written"
        return [("warning", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    if copies > 2 and needed == 1:  # noqa: PLR2004  with two, one has to do
        what = f"min.insync.replicas=1 with {copies} replicas: what was acknowledged may be on one disk only"
        return [("warning", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    return []
