"""Each service has the rights that the choreography gives it: all that it needs for an import, and nothing else."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib import open_log
from eventlib.devtools.kafka import Cluster
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import Kind, Operation, User, user_name
from eventlib.manifests.topics import topic_specs
from eventlib.runtime.runtime import prepare_own
from services import shop
from tests.integration.authorized import authorized_broker, client_config
from tests.integration.live_answers import History as LiveHistory
from tests.integration.live_log import Story, is_read, told
from tests.integration.live_worker import LiveWorker, reset
from tests.ports import free_port
from tests.saga.fleet import Fleet, importing, outside_at, summary_of
from tests.saga.following import Endings
from tests.saga.invariants import History, check_laws, read_file
from tests.saga.shop_runs import ShopLog, order_file
from tests.shop_rights import SERVICES, users, views

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

OPTIONS = KafkaOptions(prefix="p.", application="shop", replication_factor=1)
FAULTS = {"gateway": {"decline": 0.1}, "carrier": {"undeliverable": 0.1}}
STOCK_UNITS, ORDERS = 1_000, 30
PATIENCE_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with authorized_broker(users(OPTIONS).values(), topic_specs(shop, OPTIONS, views())) as made:
        yield made


@pytest.mark.extended
def test_an_import_with_the_least_rights(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ShopLog(tmp_path, f"{cluster.url}/?prefix={OPTIONS.prefix}&application={OPTIONS.application}")
    file, ledger = order_file(tmp_path, ORDERS), tmp_path / "simulators.db"
    outside = f"http://127.0.0.1:{free_port()}"
    wanted = read_file(file)
    come_as(monkeypatch, cluster, user_of("installer"))
    asyncio.run(install(log.url))
    come_as(monkeypatch, cluster, user_of("operator"))
    with ExitStack() as stack:
        simulators = stack.enter_context(Fleet(log))
        simulators.start_simulators(outside, ledger, FAULTS, seed=3)
        for service in shop.services:
            environment = {**cluster.environment(user_of(service.name).name), **outside_at(outside)}
            fleet = stack.enter_context(Fleet(log, environment))
            fleet.start_services(service.name, "--service", service.name)
            stack.callback(fleet.stop, service.name)
            fleet.ready(service.name)
        endings = stack.enter_context(Endings(log.url))
        client = stack.enter_context(Fleet(log, cluster.environment(user_of("outside").name)))
        client.start("placing", *importing(log, file, STOCK_UNITS), "--place-only")
        endings.wait(len(wanted.orders), len(wanted.skus), longest_s=120)
        assert summary_of(client.result("placing"))
    check_laws(wanted, History(log.tail()), ledger, STOCK_UNITS)
    assert log.parked() == []


@pytest.mark.extended
def test_live_views_with_the_least_rights(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ShopLog(tmp_path, f"{cluster.url}/?prefix={OPTIONS.prefix}&application={OPTIONS.application}")
    for name, value in cluster.environment("admin").items():
        monkeypatch.setenv(name, value)
    asyncio.run(told(log.url, Story(40, seed=5)))
    history = LiveHistory(map(json.loads, log.tail()))
    with ExitStack() as stack:
        for viewing in views():
            worker = LiveWorker(log.url, tmp_path, viewing.service, environment=rights_of(cluster, viewing.name))
            stack.enter_context(worker)
            stack.callback(checked, worker, viewing.service, history)
    anew = LiveWorker(log.url, tmp_path, "dispatch", environment=rights_of(cluster, "dispatch-views"))
    anew.wait(lambda: reset(log.url, tmp_path, "dispatch", rights_of(cluster, "installer")).returncode == 0, "an end")
    with anew as worker:
        checked(worker, "dispatch", history)


def checked(worker: LiveWorker, service: str, history: LiveHistory) -> None:
    """Hold a worker's views against the log when it has read that, and stop it."""
    worker.wait(lambda: asyncio.run(is_read(worker.url, service)), "the end of the inputs")
    worker.check(history)
    worker.stop()


def rights_of(cluster: Cluster, name: str) -> dict[str, str]:
    return dict(cluster.environment(user_of(name).name))


def user_of(name: str) -> User:
    return users(OPTIONS)[user_name(OPTIONS, name)]


async def install(url: str) -> None:
    async with open_log(url, shop) as log:
        await prepare_own(log, shop.services)


def come_as(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, user: User) -> None:
    for variable in [name for name in os.environ if name.startswith("EVENTLIB_")]:
        monkeypatch.delenv(variable)
    for name, value in cluster.environment(user.name).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", [*SERVICES, *(f"{each}-views" for each in SERVICES)])
def test_who_runs_is_refused_what_it_may_not_touch(cluster: Cluster, name: str) -> None:
    user = user_of(name)
    every = {topic.name for topic in topic_specs(shop, OPTIONS, views())}
    for refused, operation in ((refused_writing, Operation.WRITE), (refused_reading, Operation.READ)):
        others = every - allowed(user, operation)
        assert refused(cluster, user, others) == others
    neighbour = next(other for other in users(OPTIONS) if other not in {user.name, user_of("installer").name})
    assert refused_writing_as(cluster, user, f"p.shop~{neighbour}~1")
    assert refused_joining(cluster, user, own_group(users(OPTIONS)[neighbour]))
    assert refused_joining(cluster, user, next(f"p.shop.{v.group}" for v in views() if v.name != name))


def allowed(user: User, operation: Operation) -> set[str]:
    return {right.name for right in user.rights if right.kind is Kind.TOPIC and operation in right.operations}


def own_group(user: User) -> str:
    return next(right.name for right in user.rights if right.kind is Kind.GROUP)


def refused_writing(cluster: Cluster, user: User, topics: set[str]) -> set[str]:
    """Return the topics that the cluster lets the user write nothing to."""

    from confluent_kafka import KafkaError, Producer

    outcomes = dict[str, KafkaError | None]()

    def note(topic: str, error: KafkaError | None, _: object) -> None:
        outcomes[topic] = error

    producer = Producer(client_config(cluster, user.name))
    for topic in topics:
        producer.produce(topic, b"forged", on_delivery=partial(note, topic))
    producer.flush(PATIENCE_S)
    return {topic for topic, error in outcomes.items() if is_refusal(error)}


def refused_reading(cluster: Cluster, user: User, topics: set[str]) -> set[str]:
    """Return the topics of which the cluster lets the user read nothing."""

    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**client_config(cluster, user.name), "group.id": own_group(user)})
    try:
        seen = {topic: consumer.list_topics(topic, PATIENCE_S).topics[topic].error for topic in topics}
        refused = {topic for topic, error in seen.items() if is_refusal(error)}
        asked = {topic for topic, error in seen.items() if error is None}  # whoever may write it sees that it is there
        consumer.assign([TopicPartition(topic, 0, 0) for topic in asked])
        while asked and (message := consumer.poll(PATIENCE_S)) is not None:
            topic = str(message.topic())
            asked.discard(topic)
            refused |= {topic} if is_refusal(message.error()) else set()
    finally:
        consumer.close()
    return refused


def is_refusal(error: "KafkaError | None") -> bool:
    from confluent_kafka import KafkaError

    return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def refused_writing_as(cluster: Cluster, user: User, transactional_id: str) -> bool:
    from confluent_kafka import KafkaError, KafkaException, Producer

    producer = Producer({**client_config(cluster, user.name), "transactional.id": transactional_id})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_S)
    code: int = caught.value.args[0].code()
    return code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def refused_joining(cluster: Cluster, user: User, group: str) -> bool:
    from confluent_kafka import Consumer, KafkaError

    consumer = Consumer({**client_config(cluster, user.name), "group.id": group})
    try:
        consumer.subscribe([next(iter(sorted(allowed(user, Operation.READ))))])
        message = consumer.poll(PATIENCE_S)
    finally:
        consumer.close()
    error = None if message is None else message.error()
    return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
