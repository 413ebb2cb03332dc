"""Keys are rotated as the runbook says, under an open log and while orders come in; what was before lets nobody in."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eventlib.devtools.kafka import Cluster, ClusterConfig, Sasl, Security, running_cluster
from eventlib.devtools.kafka.config import certificate, key_store
from eventlib.devtools.kafka.security import STORE_PASSWORD
from eventlib.log.kafka.log import KafkaLog
from eventlib.model.record import Record
from eventlib.model.topic import Topic
from eventlib.values import now_ms
from tests import forked
from tests.integration.authorities import Authority, together
from tests.integration.authorized import client_config
from tests.integration.upgraded import Upgraded
from tests.saga.fleet import Fleet
from tests.saga.shop_runs import EVENTLIB, ShopLog

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, UserScramCredentialAlteration

LISTENER = "listener.name.client.ssl"
PATIENCE_S = 120


def scram(mechanism: str) -> "ScramCredentialInfo":
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism

    return ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4096)


def admin_of(cluster: Cluster) -> "AdminClient":
    """Return an administrator of another client than ours, with the certificates of this process."""

    from confluent_kafka.admin import AdminClient

    names = {"ca": "CA", "certificate": "CERT", "key": "KEY"}
    files = {f"ssl.{name}.location": os.environ.get(f"EVENTLIB_KAFKA_TLS_{each}") for name, each in names.items()}
    return AdminClient({**client_config(cluster, "admin"), **{name: file for name, file in files.items() if file}})


def alter_password(cluster: Cluster, change: "UserScramCredentialAlteration") -> None:
    admin = admin_of(cluster)
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(PATIENCE_S)


def alter_broker(cluster: Cluster, changes: Mapping[str, str]) -> None:
    """Change settings of the listener for clients, while the node runs."""

    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    given = {**changes, **({"keystore.password": STORE_PASSWORD} if "keystore.location" in changes else {})}
    entries = [
        ConfigEntry(f"{LISTENER}.{name}", value, incremental_operation=AlterConfigOpType.SET)
        for name, value in given.items()
    ]
    wanted = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=entries)
    admin = admin_of(cluster)
    for done in admin.incremental_alter_configs([wanted]).values():
        done.result(PATIENCE_S)


OTHERS = "order+stock+dispatch all"
EVERY = "order+stock+payment+dispatch"
USERS = {"admin": "admin-secret", "payment": "before"}
BEFORE = {"EVENTLIB_KAFKA_USER": "payment", "EVENTLIB_KAFKA_PASSWORD": "before", "EVENTLIB_KAFKA_SASL": "SCRAM-SHA-512"}
AFTER = {**BEFORE, "EVENTLIB_KAFKA_PASSWORD": "after", "EVENTLIB_KAFKA_SASL": "SCRAM-SHA-256"}
TOPIC = Topic("a", partitions=1)


@pytest.mark.extended
async def test_a_log_stays_open_while_all_keys_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    both = together(tmp_path / "both.pem", old, new)
    before, after = client_of(old, trusts=old.certificate), client_of(new, trusts=new.certificate)
    with mutual_tls(old) as cluster:
        come_as_admin(cluster, monkeypatch, {**before, **BEFORE})
        log = await KafkaLog.open(cluster.url)
        try:
            await log.create_topics([TOPIC])
            await log.append([Record("a", 0, -1, now_ms(), b"k", b"before")])
            assert len(await log.read("a", 0, 0, 10)) == 1
            come_as_admin(cluster, monkeypatch, client_of(old, trusts=both))
            alter_password(cluster, UserScramCredentialUpsertion("payment", scram("SCRAM-SHA-256"), b"after"))
            alter_broker(cluster, {"truststore.location": str(both)})
            alter_broker(cluster, {"keystore.location": str(new.key_store())})
            assert denied(cluster, {**after, **AFTER}) == ""
            come_as_admin(cluster, monkeypatch, after)
            alter_password(cluster, UserScramCredentialDeletion("payment", ScramMechanism.SCRAM_SHA_512))
            alter_broker(cluster, {"truststore.location": str(new.certificate)})
            await log.append([Record("a", 0, -1, now_ms(), b"k", b"after")])
            assert len(await log.read("a", 0, 0, 10)) == 2
        finally:
            await log.close()
        assert "refuses this user" in denied(cluster, {**after, **BEFORE})
        assert denied(cluster, {**client_of(old, trusts=new.certificate), **AFTER})
        assert "is not trusted" in denied(cluster, {**before, **AFTER})
        assert denied(cluster, {**after, **AFTER}) == ""


@pytest.mark.slow
def test_a_users_password_changes_while_orders_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

    with running_cluster(ClusterConfig(security=Security(sasl=Sasl.SCRAM, tls=True, users=USERS))) as cluster:
        come_as_admin(cluster, monkeypatch)
        shop = Upgraded(tmp_path, cluster, steps=4)
        with shop.importing():
            shop.start(OTHERS)
            shop.start("payment old", **BEFORE)
            shop.orders_come()
            alter_password(cluster, UserScramCredentialUpsertion("payment", scram("SCRAM-SHA-256"), b"after"))
            shop.orders_come()
            shop.start("payment new", **AFTER)
            shop.orders_come()
            shop.stop("payment old")
            shop.orders_come()
        assert denied(cluster, BEFORE) == ""
        alter_password(cluster, UserScramCredentialDeletion("payment", ScramMechanism.SCRAM_SHA_512))
        assert "refuses this user" in denied(cluster, BEFORE)
        assert denied(cluster, AFTER) == ""
        shop.check()


@pytest.mark.slow
def test_a_process_whose_password_is_replaced_ends_when_it_has_to_connect_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka.admin import UserScramCredentialUpsertion

    with running_cluster(ClusterConfig(security=Security(sasl=Sasl.SCRAM, tls=True, users=USERS))) as cluster:
        come_as_admin(cluster, monkeypatch)
        with Fleet(ShopLog(tmp_path, cluster.url), {**BEFORE, "EVENTLIB_STATE_DIR": str(tmp_path / "state")}) as fleet:
            fleet.start_services("stock", "--service", "stock")
            fleet.ready("stock")
            alter_password(cluster, UserScramCredentialUpsertion("payment", scram("SCRAM-SHA-512"), b"after"))
            cluster.restart(1)
            with pytest.raises(AssertionError, match="refuses this user"):
                fleet.result("stock")
            assert "Traceback" not in fleet.diary("stock")
            fleet.start("its next", "env", "EVENTLIB_KAFKA_PASSWORD=after", EVENTLIB, "run", "--service", "stock")
            fleet.ready("its next")
            fleet.stop("its next")


@pytest.mark.slow
def test_certificates_and_their_authority_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    both = together(tmp_path / "both.pem", old, new)
    with mutual_tls(old) as cluster:
        come_as_admin(cluster, monkeypatch, client_of(old, trusts=both))  # who places orders is not started again
        shop = Upgraded(tmp_path, cluster, steps=5)
        with shop.importing():
            shop.start(f"{EVERY} 1", f"{EVERY} 2", **client_of(old, trusts=old.certificate))
            shop.orders_come()
            alter_broker(cluster, {"truststore.location": str(both)})
            renew(shop, client_of(new, trusts=both))
            alter_broker(cluster, {"keystore.location": str(new.key_store())})
            shop.orders_come()
            renew(shop, client_of(new, trusts=new.certificate))
        come_as_admin(cluster, monkeypatch, client_of(new, trusts=new.certificate))
        alter_broker(cluster, {"truststore.location": str(new.certificate)})
        assert "is not trusted" in denied(cluster, client_of(new, trusts=old.certificate))
        assert denied(cluster, client_of(old, trusts=new.certificate))
        assert denied(cluster, client_of(new, trusts=new.certificate)) == ""
        shop.check()


def renew(shop: Upgraded, variables: Mapping[str, str]) -> None:
    """Start the two processes again, one after the other, with other variables."""
    for number in (1, 2):
        shop.stop(f"{EVERY} {number}")
        shop.start(f"{EVERY} {number}", **variables)
        shop.orders_come()


@contextmanager
def mutual_tls(authority: Authority) -> Iterator[Cluster]:
    """Run a node that asks its clients for a certificate; it and they trust one authority."""
    properties = {
        f"{LISTENER}.client.auth": "required",
        f"{LISTENER}.truststore.type": "PEM",
        f"{LISTENER}.truststore.location": str(authority.certificate),
    }

    def prepare(cluster: Cluster) -> None:
        key_store(cluster.directory).parent.mkdir()
        shutil.copy(authority.key_store(), key_store(cluster.directory))
        shutil.copy(authority.certificate, certificate(cluster.directory))

    security = Security(sasl=Sasl.SCRAM, tls=True, users=USERS)
    with running_cluster(ClusterConfig(security=security, properties=properties), prepare) as cluster:
        yield cluster


def client_of(authority: Authority, trusts: Path) -> dict[str, str]:
    """Return the variables of a client with a certificate of an authority, and whom it trusts."""
    chain, key = authority.signed("client")
    return {
        "EVENTLIB_KAFKA_TLS_CA": str(trusts),
        "EVENTLIB_KAFKA_TLS_CERT": str(chain),
        "EVENTLIB_KAFKA_TLS_KEY": str(key),
    }


def come_as_admin(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, own: Mapping[str, str] | None = None) -> None:
    for name, value in {**cluster.environment("admin"), **(own or {})}.items():
        monkeypatch.setenv(name, value)


def denied(cluster: Cluster, variables: Mapping[str, str]) -> str:
    """Return why a client with these variables is not let in; nothing when it is."""
    command = [EVENTLIB, "topics", "--log", cluster.url]
    done = forked.run(command, env={**os.environ, **variables}, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr
