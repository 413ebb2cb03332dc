"""Examines a log on Kafka: its brokers' addresses, versions and clocks, and the topics' settings."""

import asyncio
from collections.abc import Mapping, Sequence

from eventlib.contracts.view_manifest import Viewing
from eventlib.errors import EventlibError
from eventlib.log.kafka.admin import Clock, TopicState, clock, topic_settings, topic_states
from eventlib.log.kafka.client import Cluster
from eventlib.log.kafka.options import KafkaOptions, parse_url
from eventlib.log.kafka.probing import Trouble, probe
from eventlib.log.kafka.topic_configs import TIMESTAMP_TYPE
from eventlib.model.choreography import Choreography
from eventlib.model.topic import Topic
from eventlib.operations.doctor.content import APART_MS, SYNCHRONISE
from eventlib.operations.doctor.finding import Diagnosis, error, fine, some, warning
from eventlib.operations.doctor.kafka_acls import examine_rights, examine_view_rights

_ENOUGH_BROKERS = 3


async def examine_kafka_topics(cluster: Cluster, topics: Sequence[Topic]) -> list[Diagnosis]:
    """Check where the topics' replicas are, and how many of them an append waits for."""
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
        what = f"{TIMESTAMP_TYPE}=LogAppendTime, so the brokers change the times of events, and a replay decides differently"
        found.append(("error", what, f"kafka-configs.sh --alter --add-config {TIMESTAMP_TYPE}=CreateTime"))
    if settings.get("unclean.leader.election.enable") == "true":
        what = "unclean.leader.election.enable=true, so a replica that has missed events may lead, and they are lost"
        found.append(("warning", what, "kafka-configs.sh --alter --add-config unclean.leader.election.enable=false"))
    return found


def _replica_faults(state: TopicState, settings: Mapping[str, str], brokers: int) -> list[tuple[str, str, str]]:
    copies = min((len(each.replicas) for each in state.replicas), default=0)
    in_sync = min((len(each.in_sync) for each in state.replicas), default=0)
    needed = int(settings.get("min.insync.replicas", 1))
    found = []
    if any(each.leader < 0 for each in state.replicas):
        found.append(("error", "a partition has no leader", "start the brokers that hold its replicas"))
    elif in_sync < min(needed, copies):
        what = f"{in_sync} of {copies} replicas are in sync, and an append needs {needed}"
        found.append(("error", what, "start the brokers that are down; until then nothing can be written"))
    elif in_sync < copies:
        found.append(
            ("warning", f"{in_sync} of {copies} replicas are in sync", "check the brokers that lag or are down")
        )
    return found + _durability_faults(copies, needed, brokers)


def _durability_faults(copies: int, needed: int, brokers: int) -> list[tuple[str, str, str]]:
    if copies == 1 and brokers >= _ENOUGH_BROKERS:
        what = f"one replica, on a cluster of {brokers} brokers: if its disk fails, the events are lost"
        return [
            ("warning", what, "kafka-reassign-partitions.sh to three; EVENTLIB_KAFKA_REPLICATION_FACTOR for new ones")
        ]
    if copies > 1 and needed > copies:
        what = f"min.insync.replicas={needed}, and there are {copies} replicas: nothing can be written"
        return [("error", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    if copies > 1 and needed == copies:
        what = f"min.insync.replicas={needed} with as many replicas: when one broker is down, nothing can be written"
        return [("warning", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    if copies > 2 and needed == 1:  # noqa: PLR2004  with two, one has to do
        what = f"min.insync.replicas=1 with {copies} replicas: what was acknowledged may be on one disk only"
        return [("warning", what, f"kafka-configs.sh --alter --add-config min.insync.replicas={copies - 1}")]
    return []


_FAR_APART_MS = 60_000


async def examine_kafka(
    url: str, choreography: Choreography, topics: Sequence[Topic], views: Sequence[Viewing]
) -> list[Diagnosis]:
    """Connect to a cluster as the services would, and examine it. Raises: WiringError for an invalid URL."""
    hosts, options = parse_url(url)
    found = await _examine_way(hosts, options)
    if all(each.verdict == "error" for each in found):
        return found
    cluster = Cluster(hosts, options)
    try:
        await cluster.refresh()
        listeners = await _examine_listeners(cluster)
        found += listeners
        if len(listeners) == len(cluster.brokers) and listeners[0].verdict == "error":
            return found
        await cluster.start()
        found.append(_examine_version(cluster))
        found.append(_examine_clock(await clock(cluster)))
        found += await examine_rights(cluster, choreography, topics)
        for viewing in views:
            found += await examine_view_rights(cluster, viewing)
        found += await examine_kafka_topics(cluster, topics)
    except EventlibError as trouble:
        found.append(error("brokers", str(trouble), "fix the errors above, and run this again"))
    finally:
        await cluster.close()
    return found


async def _examine_way(hosts: list[str], options: KafkaOptions) -> list[Diagnosis]:
    """Try each address in the URL."""
    troubles = await _probe_all(hosts, options)
    if not any(troubles):
        return [fine("brokers", f"{', '.join(hosts)} answer{'s' if len(hosts) == 1 else ''}{_as_whom(options)}")]
    severe = error if all(troubles) else warning  # one address is enough to connect
    return [severe("brokers", trouble.what, trouble.remedy) for trouble in troubles if trouble]


async def _examine_listeners(cluster: Cluster) -> list[Diagnosis]:
    """Try each address that brokers advertise: clients connect there, whatever the URL names."""
    nodes = sorted(cluster.brokers)
    addresses = [f"{cluster.brokers[node].host}:{cluster.brokers[node].port}" for node in nodes]
    troubles = await _probe_all(addresses, cluster.options)
    if not any(troubles):
        return [fine("listeners", f"all brokers can be reached at their advertised addresses: {', '.join(addresses)}")]
    return [
        error(
            "listeners",
            f"broker {node} advertises {address}: {trouble.what}",
            "give the broker advertised.listeners that can be reached from here; the URL is only the bootstrap address",
        )
        for node, address, trouble in zip(nodes, addresses, troubles, strict=True)
        if trouble
    ]


async def _probe_all(addresses: Sequence[str], options: KafkaOptions) -> list[Trouble | None]:
    places = [address.rpartition(":") for address in addresses]
    return await asyncio.gather(*(probe(host, int(port), options) for host, _, port in places))


def _examine_version(cluster: Cluster) -> Diagnosis:
    found = ", ".join(f"{name} {level}" for name, level in sorted(cluster.features.items()))
    if not cluster.implicit_transactions:
        return warning(
            "version",
            f"the cluster has transactions of the first version ({found or 'it names no features'}): each costs one more "
            "request, and a late write can keep one open",
            "upgrade to Kafka 4, or finish an upgrade with kafka-features.sh (transaction.version=2)",
        )
    return fine("version", f"cluster {cluster.id}, brokers {len(cluster.brokers)}; {found}")


def _examine_clock(clock: Clock | None) -> Diagnosis:
    """Compare this machine's clock with the cluster's, allowing for the round trip of the answer."""
    if clock is None:
        return warning(
            "clock",
            "this user may not read the cluster's time",
            "let it describe the cluster (Describe on Cluster), or compare the clocks by hand",
        )
    if clock.asked_ms <= clock.there_ms <= clock.answered_ms:
        apart = 0
    else:
        apart = min(clock.there_ms - clock.asked_ms, clock.there_ms - clock.answered_ms, key=abs)
    what = f"the cluster's clock is {abs(apart):,} ms {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) > _FAR_APART_MS:
        return error("clock", what, SYNCHRONISE)
    if abs(apart) > APART_MS:
        return warning("clock", what, SYNCHRONISE)
    return fine("clock", what if apart else "the cluster's clock and this machine's agree")


def _as_whom(options: KafkaOptions) -> str:
    who = f", to {options.user or options.oauth_client_id} with {options.sasl}" if options.sasl else ""
    return who + (", over TLS" if options.tls else "")
