"""Changes of a broker's keys while it runs, made by another client than ours."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from eventlib.devtools.kafka import Cluster
from eventlib.devtools.kafka.security import STORE_PASSWORD
from tests.integration.authorized import client_config

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
