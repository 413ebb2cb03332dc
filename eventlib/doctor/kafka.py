"""A log on Kafka: the way to its brokers, what they are, what time they have, and what this user may do there."""

import asyncio
from collections.abc import Sequence

from eventlib.choreography import Choreography
from eventlib.doctor.clocks import APART_MS, SYNCHRONISE
from eventlib.doctor.diagnosis import Diagnosis, error, fine, warning
from eventlib.doctor.kafka_rights import examine_rights, examine_view_rights
from eventlib.doctor.kafka_topics import examine_kafka_topics
from eventlib.errors import EventlibError
from eventlib.log.kafka.cluster import Cluster
from eventlib.log.kafka.options import KafkaOptions, parse_url
from eventlib.log.kafka.probing import Trouble, probe
from eventlib.log.kafka.questions import Clock, clock
from eventlib.topic import Topic
from eventlib.viewing import Viewing

_FAR_APART_MS = 60_000


async def examine_kafka(
    url: str, choreography: Choreography, topics: Sequence[Topic], views: Sequence[Viewing]
) -> list[Diagnosis]:
    """Go to a cluster as the services would, and look. Raises: WiringError for what is no URL of a log."""
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
        found.append(error("brokers", str(trouble), "mend what is said above, and look again"))
    finally:
        await cluster.close()
    return found


async def _examine_way(hosts: list[str], options: KafkaOptions) -> list[Diagnosis]:
    """Try each address that the URL names."""
    troubles = await _probe_all(hosts, options)
    if not any(troubles):
        return [fine("brokers", f"{', '.join(hosts)} answer{'s' if len(hosts) == 1 else ''}{_as_whom(options)}")]
    severe = error if all(troubles) else warning  # one address is enough to begin with
    return [severe("brokers", trouble.what, trouble.remedy) for trouble in troubles if trouble]


async def _examine_listeners(cluster: Cluster) -> list[Diagnosis]:
    """Try each address that brokers give for themselves: clients go there, whatever the URL names."""
    nodes = sorted(cluster.brokers)
    addresses = [f"{cluster.brokers[node].host}:{cluster.brokers[node].port}" for node in nodes]
    troubles = await _probe_all(addresses, cluster.options)
    if not any(troubles):
        return [fine("listeners", f"all brokers can be reached where they say they are: {', '.join(addresses)}")]
    return [
        error(
            "listeners",
            f"broker {node} says that it is at {address}: {trouble.what}",
            "give the broker advertised.listeners that can be reached from here; the URL only says where to ask",
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
            f"the cluster has transactions of the first version ({found or 'it names no features'}): each costs a request "
            "more, and a write that comes late can keep one open",
            "upgrade to Kafka 4, or finish an upgrade with kafka-features.sh (transaction.version=2)",
        )
    return fine("version", f"cluster {cluster.id}, brokers {len(cluster.brokers)}; {found}")


def _examine_clock(clock: Clock | None) -> Diagnosis:
    """Compare this machine's clock with the cluster's; the answer's way through the network is allowed for."""
    if clock is None:
        return warning(
            "clock",
            "the cluster's time is not told to this user",
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
