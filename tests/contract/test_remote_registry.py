"""With a registry elsewhere: asked once for each schema, gone on without it, and shared with clients of others."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from analytics.asking import schemas
from eventlib import Event, open_log
from eventlib.cli import run
from eventlib.codec.base import UnknownSchema
from eventlib.codec.registry import Schema
from eventlib.codec.remote_registry import RemoteRegistry
from eventlib.codec.wire_format import FramedCodec
from eventlib.contracts.declared import named
from eventlib.contracts.preflight import open_epoch, register, verdict
from eventlib.errors import ContractError, RegistryRefused, RegistryUnavailable, WiringError
from eventlib.identity import Role
from eventlib.log.memory import MemoryLog
from tests.contract.registry_servers import identified, listening_registry, self_signed, value_of
from tests.golden.contracts import first, third
from tests.handling import handle_all


class Paid(Event, topic="payments", key="order_id"):
    order_id: str
    amount_cents: int


PAID = Paid(order_id="1", amount_cents=250)


def requests(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "httpx"]


async def test_nothing_is_registered_unasked_and_services_run_once_it_is(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EVENTLIB_REGISTRY", url)
    place = f"sqlite:///{tmp_path}/log.db"
    with pytest.raises(ContractError, match="nothing registers it by itself"):
        async with open_log(place, first.post):
            pass
    async with open_log(place, first.post, read_only=True) as log:
        problems, made = await register(log)
        assert (problems, len(made)) == ([], 5)
        assert (await verdict(log, sample=0)).versions == 5
    async with open_log(place, first.post) as log:
        caplog.set_level(logging.INFO, "httpx")
        for _ in range(20):
            for event in first.story():
                await log.publish(event)
        await handle_all(log)
        assert "_schemas" not in await log.port.topics()
        assert sum([await log.port.end("parcels", partition) for partition in range(8)]) == 60
        counted = requests(caplog)
        asked_by_id = [each for each in counted if "/schemas/ids/" in each]
        assert len(asked_by_id) == len(set(asked_by_id)), "one request for each schema"
        assert len(counted) < 40, "and none for an event"
    found = await asyncio.to_thread(schemas, place)
    assert [each for each in found.values() if '"name":"ParcelAccepted"' in each], "Spark finds them there, too"


async def test_a_new_version_of_a_contract_is_one_for_a_registry_that_knows_of_none(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLIB_REGISTRY", url)
    async with open_log(f"sqlite:///{tmp_path}/log.db", first.post, read_only=True) as log:
        await register(log)
    async with open_log(f"sqlite:///{tmp_path}/log.db", third.post, read_only=True) as log:
        registry = log.codec.registry
        await registry.set_level("parcels-ParcelDelivered", "BACKWARD_TRANSITIVE")
        for name in ("ParcelHandedIn", "ParcelAccepted"):
            assert (await open_epoch(log, named(log, name))).version == 2
        problems, made = await register(log)
        assert (problems, {each.subject for each in made}) == ([], {"parcels-ParcelDelivered", "post.changelog-Parcel"})
        assert await registry.level("parcels-ParcelAccepted") == "FULL"
        assert await registry.level("post.changelog-Parcel") == "BACKWARD_TRANSITIVE"
    async with open_log(f"sqlite:///{tmp_path}/log.db", third.post) as log:
        log.codec.encode(third.story()[0])


async def test_a_user_is_let_in_by_a_token_and_a_reader_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables, tokens = identified(tmp_path, ann=Role.OPERATOR, bob=Role.AUDITOR)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with listening_registry() as url:
        ann, bob, none = (RemoteRegistry(url, auth=auth) for auth in (*tokens.items(), None))
        schema = Schema('{"type":"record","name":"Paid","fields":[]}')
        await ann.register([("payments-Paid", schema)])
        assert await bob.ids([("payments-Paid", schema)]) == [1]
        for who in (bob, none):
            with pytest.raises(RegistryRefused, match="does not let this user in, or do that") as refused:
                await who.register([("other-Paid", schema)])
            assert tokens["bob"] not in str(refused.value)
        for who in (ann, bob, none):
            await who.close()


async def other_codec(url: str) -> FramedCodec:
    return FramedCodec(MemoryLog(), RemoteRegistry(url))


async def test_a_registry_that_is_away_stops_only_what_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    with listening_registry() as url:
        writer, reader = await other_codec(url), await other_codec(url)
        await writer.prepare([("payments", Paid)])
        data = writer.encode(PAID)
        with pytest.raises(UnknownSchema):
            reader.decode(Paid, data)
        caplog.set_level(logging.INFO, "httpx")
        assert await reader.known(lambda: reader.decode(Paid, data)) == PAID
        for _ in range(100):
            assert await reader.known(lambda: reader.decode(Paid, data)) == PAID
        assert len(requests(caplog)) == 1
    unknown = b"\x00\x00\x00\x00\x63" + data[5:]
    with pytest.raises(RegistryUnavailable, match=r"cannot be reached .*schemas that are known here go on"):
        await reader.known(lambda: reader.decode(Paid, unknown))
    assert reader.decode(Paid, writer.encode(PAID)) == PAID
    for codec in (writer, reader):
        await codec.registry.close()


async def test_an_id_that_nobody_knows_stays_unknown(url: str) -> None:
    codec = await other_codec(url)
    with pytest.raises(UnknownSchema, match="schema id 99"):
        await codec.known(lambda: codec.decode(Paid, b"\x00\x00\x00\x00\x63abc"))
    await codec.registry.close()


async def test_the_registry_of_others_refuses_too(url: str) -> None:
    registry = RemoteRegistry(url)
    old = json.dumps({"type": "record", "name": "Paid", "fields": []})
    new = json.dumps({"type": "record", "name": "Paid", "fields": [{"name": "a", "type": "long"}]})
    await registry.register([("payments-Paid", Schema(old))])
    with pytest.raises(RegistryRefused, match=r"refuses .*409"):
        await registry.register([("payments-Paid", Schema(new))])
    with pytest.raises(RegistryRefused, match="42201"):
        await registry.register([("payments-Paid", Schema("{}"))])
    assert await registry.level("payments-Paid") is None
    await registry.set_level("payments-Paid", "NONE")
    assert await registry.level("payments-Paid") == "NONE"
    await registry.register([("payments-Paid", Schema(new))])
    assert [each.version for each in await registry.versions("payments-Paid")] == [1, 2]
    assert await registry.subjects() == ["payments-Paid"]
    assert await registry.versions("payments-Nothing") == []
    await registry.close()


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://"])
def test_what_is_no_url_of_a_registry_is_refused(url: str) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_REGISTRY is no URL of a registry: give https://host:port"):
        RemoteRegistry(url)


async def test_over_tls_with_the_authority_that_is_named(tmp_path: Path) -> None:
    tls = self_signed(tmp_path)
    with listening_registry(tls) as url:
        registry = RemoteRegistry(url, tls.certificate)
        wanted = [("payments-Paid", Schema('{"type":"record","name":"Paid","fields":[]}'))]
        await registry.register(wanted)
        assert await registry.ids(wanted) == [1]
        await registry.close()


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WiringError, match="EVENTLIB_REGISTRY_CA="):
        RemoteRegistry("https://registry", str(tmp_path / "nothing.pem"))


async def test_avro_goes_to_and_from_a_client_of_others(url: str) -> None:
    from confluent_kafka.schema_registry import Schema as TheirSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

    codec = await other_codec(url)
    await codec.prepare([("payments", Paid)])
    with SchemaRegistryClient({"url": url}) as client:
        read: Any = AvroDeserializer(client)
        assert read(codec.encode(PAID), value_of("payments")) == {"order_id": "1", "amount_cents": 250}
        theirs = json.dumps(
            {
                "type": "record",
                "name": "Paid",
                "namespace": "com.example",
                "fields": [
                    {"name": "amount_cents", "type": "int"},
                    {"name": "order_id", "type": "string"},
                    {"name": "note", "type": "string"},
                ],
            }
        )
        write: Any = AvroSerializer(client, TheirSchema(theirs, "AVRO"))
        data = write({"amount_cents": 250, "order_id": "1", "note": "of theirs"}, value_of("payments"))
    assert await codec.known(lambda: codec.decode(Paid, data)) == PAID
    await codec.registry.close()


def test_a_pipeline_needs_a_registry_and_no_log(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVENTLIB_REGISTRY", url)
    shared = ["--log", f"sqlite:///{tmp_path}/none.db", "schemas"]
    assert run(["--app", "tests.golden.contracts.first:post", *shared, "register"]) == 0
    assert run(["--app", "tests.golden.contracts.first:post", *shared, "check"]) == 0
    assert "5 contracts against 5 versions" in capsys.readouterr().out
    assert run(["--app", "tests.golden.contracts.second:post", *shared, "check"]) == 1
    assert "MISSING_ENUM_SYMBOLS" in capsys.readouterr().out
    assert not (tmp_path / "none.db").exists()
