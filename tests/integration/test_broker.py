"""The broker for development: it starts, takes what is done to it, and leaves nothing behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from eventlib.devtools.kafka import Cluster, ClusterConfig
from eventlib.devtools.kafka.layout import new_cluster_id
from eventlib.errors import BrokerFailed
from tests import forked
from tests.commands import ended
from tests.paused import paused
from tests.saga.shop_runs import EVENTLIB

OWNER = """
import sys, time
from eventlib.devtools.kafka import running_cluster
with running_cluster() as cluster:
    print(cluster.nodes[0].pid, cluster.directory, flush=True)
    time.sleep(600)
"""


async def test_a_paused_node_answers_nobody_until_it_goes_on(broker: Cluster) -> None:
    await create_topic(broker, "paused", copies=1)
    with paused(broker):
        sending = asyncio.create_task(send(broker, "paused", b"patience"))
        done, _ = await asyncio.wait([sending], timeout=1)
        assert not done
    await sending
    assert await everything(broker, "paused") == [b"patience"]


@pytest.mark.extended
async def test_of_three_nodes_any_may_die_the_leading_controller_too(three_brokers: Cluster) -> None:
    await create_topic(three_brokers, "copied", copies=3)
    leading = three_brokers.controller()
    assert leading is not None
    three_brokers.kill(leading)
    until(lambda: three_brokers.controller() not in {None, leading})
    await send(three_brokers, "copied", b"without the controller")
    three_brokers.restart(leading)
    another = leading % 3 + 1
    three_brokers.kill(another)
    await send(three_brokers, "copied", b"without another one")
    three_brokers.restart(another)
    assert three_brokers.is_running
    assert await everything(three_brokers, "copied") == [b"without the controller", b"without another one"]


def test_nothing_is_left_when_its_owner_is_killed() -> None:
    with forked.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        owner.kill()
    until(lambda: not Path(directory).exists() and not is_running(int(pid)))


async def test_started_stopped_and_looked_at_from_the_command_line(tmp_path: Path) -> None:
    place = tmp_path / "var" / "broker"
    assert looked(place).stdout.startswith("There is no broker in")
    try:
        started = eventlib("start", place, "--port", "0")
        url = started.stdout.strip()
        assert url.startswith("kafka://127.0.0.1:"), started.stderr
        assert eventlib("start", place).stdout.strip() == url  # it runs already
        refused = eventlib("start", place, "--nodes", "3")
        assert (refused.returncode, "with other options" in refused.stderr) == (1, True)
        status = json.loads(looked(place, "--json").stdout)
        assert (status["url"], status["running"], status["kafka"]) == (url, True, "4.3.1")
        cluster = Cluster.open(place)
        assert cluster is not None
        await create_topic(cluster, "kept", copies=1)
        await send(cluster, "kept", b"before")
        assert eventlib("stop", place, "--keep").stdout == "Stopped; its data is kept for the next start.\n"
        assert looked(place).returncode == 1
        again = json.loads(eventlib("start", place, "--json").stdout)
        assert (again["url"], again["cluster_id"]) == (url, status["cluster_id"])
        os.kill(again["nodes"][0]["pid"], signal.SIGKILL)  # its pid file stays
        assert eventlib("start", place).stdout.strip() == url
        await send(cluster, "kept", b"after")
        assert await everything(cluster, "kept") == [b"before", b"after"]
    finally:
        assert eventlib("stop", place).returncode == 0
    assert not place.exists()
    assert not is_running(again["nodes"][0]["pid"])
    assert eventlib("stop", place).stdout == f"There is no broker in {place}.\n"


def test_a_stale_pid_file_is_nobody_elses_death(tmp_path: Path) -> None:
    cluster = Cluster.create(tmp_path / "cluster")
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        (cluster.nodes[0].directory / "pid").write_text(f"{bystander.pid} 12345", encoding="ascii")
        assert cluster.nodes[0].pid is None
        cluster.destroy()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert not cluster.directory.exists()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = Cluster.create(tmp_path, ClusterConfig(port=port))
        with pytest.raises(BrokerFailed, match=rf"port {port} of 127.0.0.1 is taken; .*--port N"):
            cluster.start()
    cluster.destroy()


@pytest.mark.extended
def test_ports_that_were_taken_meanwhile_are_given_up_for_others(tmp_path: Path) -> None:
    cluster = Cluster.create(tmp_path)
    before = cluster.nodes[0].ports
    with socket.create_server(("127.0.0.1", before.internal)):
        try:
            cluster.start()
            assert cluster.nodes[0].ports != before
            found = Cluster.open(tmp_path)
            assert found is not None
            assert (found.url, found.is_running) == (cluster.url, True)
        finally:
            cluster.destroy()


def test_a_node_that_dies_at_its_start_shows_why(tmp_path: Path) -> None:
    cluster = Cluster.create(tmp_path, ClusterConfig(properties={"authorizer.class.name": "no.such.Authorizer"}))
    with pytest.raises(
        BrokerFailed, match=r"(?s)node 1 has ended at its start; the end of .*broker.log:.*no.such.Authorizer"
    ):
        cluster.start()
    assert cluster.nodes[0].pid is None
    cluster.destroy()


def test_what_is_there_is_not_taken_for_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BrokerFailed, match="not empty"):
        Cluster.create(tmp_path)
    assert Cluster.open(tmp_path) is None
    (tmp_path / "cluster.json").write_text("{", encoding="utf-8")
    with pytest.raises(BrokerFailed, match="cannot be read"):
        Cluster.open(tmp_path)


def test_no_cluster_is_named_as_an_option_is() -> None:
    names = {new_cluster_id() for _ in range(2_000)}
    assert len(names) == 2_000
    assert all(len(name) == 22 and name[0] != "-" for name in names)


def test_a_cluster_that_cannot_be_is_refused() -> None:
    for nodes, port in ((0, 0), (2, 0), (1, -1), (1, 70_000)):
        with pytest.raises(BrokerFailed, match=r"expected|3 of which one may fail"):
            ClusterConfig(nodes=nodes, port=port)


def looked(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return ended("broker", "status", "--dir", str(place), *options)


def eventlib(command: str, place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return forked.run(
        [EVENTLIB, "broker", command, "--dir", str(place), *options],
        capture_output=True,
        timeout=300,
    )


async def create_topic(cluster: Cluster, name: str, copies: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=copies)])
    finally:
        await admin.close()


async def send(cluster: Cluster, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True) as producer:
        await producer.send_and_wait(topic, value)


async def everything(cluster: Cluster, topic: str) -> list[bytes]:
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        found = await consumer.getmany(timeout_ms=10_000)
        return [record.value for records in found.values() for record in records]


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
