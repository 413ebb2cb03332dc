"""What a cluster has to be given: the files are what is generated, and say what the choreography says."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventlib import cli
from eventlib.log.kafka.options import KafkaOptions
from eventlib.manifests.acls import Kind, Operation, User, users_of
from eventlib.manifests.exporters import documents
from eventlib.manifests.topics import topic_specs
from eventlib.model.event import contract_of
from examples.letters import app as letters
from services import shop
from tests.shop_rights import SERVICES, users

ROOT = Path(__file__).parents[2]
OPTIONS = KafkaOptions(application="shop")
PLACES = {"strimzi": "kubernetes/kafka", "kubernetes": "kubernetes/services", "kafka": "kafka"}


def test_the_files_are_what_is_generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLIB_KAFKA_APPLICATION", "shop")
    for form, place in PLACES.items():
        assert cli.run(["export", form, "--app", "services:shop", "--out", str(tmp_path / form)]) == 0
        made = {path.name: path.read_text() for path in (tmp_path / form).iterdir()}
        kept = {path.name: path.read_text() for path in (ROOT / "deploy" / place).iterdir()}
        assert made == kept, f"run `EVENTLIB_KAFKA_APPLICATION=shop eventlib export {form} --out deploy/{place}`"


def test_the_scripts_are_scripts() -> None:
    for script in (ROOT / "deploy" / "kafka").glob("*.sh"):
        subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.parametrize("service", shop.services, ids=lambda service: service.name)
def test_a_service_writes_what_it_says_and_reads_what_it_handles(service: Any) -> None:
    own = {topic.name for topic in service.own_topics} | {
        "_schemas",
        "_operations",
        "_eventlib.owners",
        "_eventlib.topics",
    }
    user = users(OPTIONS)[f"shop-{service.name}"]
    assert allowed(user, Operation.WRITE) - own == {contract_of(event).topic.name for event in service.emits}
    read = {contract_of(event).topic.name for event in (*service.handles, *service.emits)}
    assert allowed(user, Operation.READ) - own == read
    assert f"{service.name}.control" not in allowed(user, Operation.WRITE)
    assert "_schemas" not in allowed(user, Operation.WRITE)
    for other in shop.services:
        if other is not service:
            assert not allowed(user, Operation.WRITE) & {topic.name for topic in other.own_topics}


def test_erasures_have_a_topic_where_fields_are_personal_and_operators_write_it() -> None:
    of_letters = {user.name: user for user in users_of(letters, OPTIONS, [])}
    assert "_erasures" in {topic.name for topic in topic_specs(letters, OPTIONS, [])}
    writers = {name for name, user in of_letters.items() if "_erasures" in allowed(user, Operation.WRITE)}
    assert writers == {"shop-operator", "shop-installer"}
    assert "_erasures" in allowed(of_letters["shop-analytics"], Operation.READ)
    assert not any("_erasures" in allowed(user, Operation.READ) for user in users(OPTIONS).values())


def test_operators_send_what_no_service_emits() -> None:
    sent = allowed(users(OPTIONS)["shop-operator"], Operation.WRITE) - {"_operations"}
    sent -= {each.control.name for each in shop.services}
    assert sent == allowed(users(OPTIONS)["shop-outside"], Operation.WRITE)
    assert sent == {
        "dispatch.callbacks",
        "order.requests",
        "payment.callbacks",
        "products",
        "products.latest",
        "stock.deliveries",
    }


@pytest.mark.parametrize("service", SERVICES)
def test_views_write_what_they_tell_and_read_what_they_watch(service: str) -> None:
    user = users(OPTIONS)[f"shop-{service}-views"]
    between = {name for name in allowed(user, Operation.WRITE) if name.startswith(f"live.{service}.")}
    assert allowed(user, Operation.WRITE) - between == TOLD[service]
    assert allowed(user, Operation.READ) - between - {"_schemas", "_eventlib.topics"} == WATCHED[service]
    assert between == BETWEEN[service]
    assert {right.name for right in user.rights if right.kind is Kind.GROUP} == {f"shop.{service}.live"}
    assert not {right for right in user.rights if Operation.CREATE in right.operations}


TOLD = {"order": {"orders.large"}, "stock": {"stock.alerts"}, "payment": {"payments.alerts"}, "dispatch": set()}
WATCHED = {
    "order": {"orders", "products.latest"},
    "stock": {"products", "stock.requests", "stock.lines"},
    "payment": {"stock", "payments"},
    "dispatch": {"orders", "dispatches"},
}
BETWEEN = {
    "order": {
        *(f"live.order.{table}.changelog" for table in ("orders", "outcomes", "customers", "visits")),
        "live.order.by-country",
        "live.order.by-customer",
    },
    "stock": {"live.stock.shelves.changelog", "live.stock.by-sku"},
    "payment": {
        *(f"live.payment.{table}.changelog" for table in ("charges", "failures")),
        "live.payment.by-country",
    },
    "dispatch": {"live.dispatch.shipping.changelog"},
}


def test_only_who_asks_and_operators_may_write_requests() -> None:
    writers = {user.name for user in users(OPTIONS).values() if "order.requests" in allowed(user, Operation.WRITE)}
    assert writers == {"shop-outside", "shop-operator", "shop-installer"}
    assert not allowed(users(OPTIONS)["shop-analytics"], Operation.WRITE)
    assert {name for name in users(OPTIONS) if "payments.alerts" in allowed(users(OPTIONS)[name], Operation.WRITE)} == {
        "shop-payment-views",
        "shop-installer",
    }


def allowed(user: User, operation: Operation) -> set[str]:
    return {right.name for right in user.rights if right.kind is Kind.TOPIC and operation in right.operations}


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": "x: y", "c": ["p", "#q"], "d": [], "e": {}, "f": None, "g": True},
        {"a": {"b": {"c": [{"d": 1, "e": {"f": ["g"]}}, {"h": "i\nj"}]}}},
        {"a": [[1, 2], [{"b": "ü"}]]},
        {"a": "yes", "b": "1", "c": "1.5", "d": "null", "e": "2026-01-01", "f": "x" * 200 + " y" * 200},
    ],
)
def test_yaml_is_read_as_it_was_meant(value: dict[str, Any]) -> None:
    assert [*yaml.safe_load_all(documents([value, value]))] == [value, value]


@pytest.mark.parametrize("text", ["1e5", "-2E3", "0o17", "1.5", "0x1f", "on", "~"])
def test_a_text_that_looks_like_a_number_in_any_yaml_is_quoted(text: str) -> None:
    assert documents([{"a": text}]) == f"---\na: '{text}'\n"


def test_what_is_repeated_is_written_out() -> None:
    labels = {"a": "b"}
    assert "&" not in documents([{"labels": labels, "selector": labels}])
