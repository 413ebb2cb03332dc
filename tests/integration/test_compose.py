"""The compose file's containers without Docker: brokers, registry, simulators and services, and the smoke test on them."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.composing import Stack
from tests.integration.images import Image, build_image, build_wheel
from tests.integration.otlp import Receiver, receiving, spans_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address only")

SHOP = ("identity", "schemas", "contracts", "simulators", "order", "stock", "payment", "dispatch", "views", "console")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def services_image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build_image("services", wheel, tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def collector() -> Iterator[Receiver]:
    """What stands in for the collector (test_collector.py runs that): it takes what a collector takes."""
    with receiving(keeps=True) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def stack(services_image: Image, collector: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    elsewhere = {"http://collector:4318": collector.url}
    with Stack(tmp_path_factory.mktemp("stack"), {"services": services_image}, elsewhere) as stack:
        stack.up(*SHOP)
        yield stack


def tasks_of(stack: Stack) -> dict[str, list[float]]:
    """Return how many tasks each process of each service has, as it tells Prometheus."""
    return {
        name: [_tasks(stack.get(name, "9464/metrics", replica)) for replica, _ in enumerate(stack.containers(name))]
        for name in ("order", "stock", "payment", "dispatch")
    }


def _tasks(told: str) -> float:
    return sum(map(float, re.findall(r"^eventlib_tasks\{.*\} (\S+)$", told, re.MULTILINE)))


@pytest.mark.extended
def test_the_smoke_test_passes_on_what_the_file_starts(
    stack: Stack, collector: Receiver, services_image: Image
) -> None:
    before = services_image.own_files()
    said = stack.run("smoke")
    assert "The live views have counted them." in said, said
    assert "Every invariant holds." in said, said
    assert json.loads(stack.get("views", "6069/views"))["service"] == "dispatch"
    # Both of payment share its tasks, and everybody tells Prometheus of its own.
    deadline = time.monotonic() + 120
    while (tasks := tasks_of(stack)) != {"order": [8], "stock": [8], "payment": [4, 4], "dispatch": [8]}:
        assert time.monotonic() < deadline, tasks
        time.sleep(0.5)
    # The console has its index of all sagas, shows one, and turns away no one who has a token.
    while "20+" not in (counted := stack.get("console", "9000/sagas/count?where=steps+>+3")) and int(counted) < 20:
        assert time.monotonic() < deadline, counted
        time.sleep(0.5)
    assert "Send one" in stack.get("console", "9000/topics/order.requests")
    # The contracts stand in the registry, and the topics on three brokers.
    assert "orders-OrderPlaced" in json.loads(stack.get("schemas", "8081/subjects"))
    codes = stack.stop("order", "stock", "payment", "dispatch", "views", "console", "schemas")
    assert codes == {name: [0] * len(each) for name, each in codes.items()}
    assert {span.service for span in spans_of(collector)} >= {"order", "stock", "payment", "dispatch"}
    assert services_image.own_files() == before, "an image's files stay as they are"


@pytest.mark.slow
def test_sparks_containers_archive_rebuild_and_audit(
    wheel: Path, services_image: Image, collector: Receiver, tmp_path: Path
) -> None:
    images = {"services": services_image, "spark": build_image("spark", wheel, tmp_path)}
    with Stack(tmp_path, images, {"http://collector:4318": collector.url}) as stack:
        stack.up(*SHOP, "spark-master", "spark-worker")
        stack.run("smoke")
        stack.stop("order", "stock", "payment", "dispatch", "views", "console", "simulators")
        assert re.search(r"Archived [\d,]+ records in", stack.run("archive"))
        assert "Archived nothing new" in stack.run("archive")
        rebuilt = stack.run("rebuild")
        assert re.search(r"Rebuilt of [\d,]+ records from the beginning", rebuilt), rebuilt
        cluster = json.loads(stack.get("spark-master", "8080/json/"))
        assert [worker["state"] for worker in cluster["workers"]] == ["ALIVE", "ALIVE"]
        assert [done["state"] for done in cluster["completedapps"]] == ["FINISHED"]
        stack.run("audit")
