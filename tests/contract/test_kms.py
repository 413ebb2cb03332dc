"""The master key in AWS KMS, against moto's server: what it wraps, and what it says of what goes wrong."""

import json
import logging
import os
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from eventlib.errors import LogUnavailable, WiringError
from eventlib.personal.opening import open_master
from eventlib.personal.options import PersonalOptions
from eventlib.personal.ring import KeyRing
from eventlib.personal.sqlite_store import SqliteKeyStore
from eventlib.telemetry.logs import TALKATIVE, set_up_logging
from tests.moto import running_moto

REGION = "eu-west-1"


@pytest.fixture
def client(moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of the server, and let the SDK's chain find it and nothing else."""

    import boto3

    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name, value in {
        "AWS_ENDPOINT_URL": moto, "AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return boto3.client("kms", region_name=REGION)


@pytest.fixture
def key(client: Any) -> str:
    return str(client.create_key()["KeyMetadata"]["Arn"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteKeyStore]:
    found = SqliteKeyStore(tmp_path / "log.keys", create=True)
    yield found
    found.close()


@pytest.mark.parametrize("is_set_up", [False, True])
def test_a_process_that_logs_all_logs_no_key_of_the_store(
    client: Any, key: str, store: SqliteKeyStore, caplog: pytest.LogCaptureFixture, is_set_up: bool
) -> None:
    del client  # it is there
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.NOTSET)  # whatever another test has set up
    try:
        if is_set_up:
            set_up_logging("text", "DEBUG", personal=True)
        caplog.set_level(logging.DEBUG)
        master = open_master(PersonalOptions(personal_master=f"aws-kms:{key}"))
        KeyRing(store, master, create=True)
        secret = master.unwrap(store.ring() or b"")
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)
    assert (b64encode(secret).decode() in caplog.text) is not is_set_up, "the SDK shows it, unless it is kept from that"


def test_kms_wraps_the_key_of_the_store(
    client: Any, key: str, store: SqliteKeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError

    from eventlib.personal.kms import KmsMaster

    master = open_master(PersonalOptions(personal_master=f"aws-kms:{key}"))
    text = KeyRing(store, master, create=True).encrypt("p1", "name", "Ada")
    client.create_alias(AliasName="alias/shop", TargetKeyId=key)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    for name in (key, key.rpartition("/")[2], "alias/shop"):
        assert KeyRing(store, KmsMaster(name), create=False).decrypt(text) == "Ada"
    wrapped = store.ring()
    assert client.decrypt(CiphertextBlob=wrapped, EncryptionContext={"eventlib": "personal-keys"})["KeyId"] == key
    with pytest.raises(ClientError, match="InvalidCiphertext"):
        client.decrypt(CiphertextBlob=wrapped)


def test_what_kms_refuses_names_the_remedy(client: Any, key: str, store: SqliteKeyStore) -> None:
    from eventlib.personal.kms import KmsMaster

    KeyRing(store, KmsMaster(key), create=True)
    other = client.create_key()["KeyMetadata"]["Arn"]
    with pytest.raises(WiringError, match="AWS KMS refuses"):  # moto: AccessDenied; AWS: IncorrectKey
        KeyRing(store, KmsMaster(other), create=False)
    with pytest.raises(WiringError, match="not the master key that these personal keys were made with"):
        KmsMaster(key).unwrap(b"wrapped by a file's key, as long as such a one is, or longer")
    with pytest.raises(WiringError, match="NotFoundException"):
        KmsMaster(key.rpartition("/")[0] + "/none").wrap(b"key")


def test_unknown_credentials_are_refused(
    tmp_path: Path, client: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventlib.personal.kms import KmsMaster

    assert client is not None
    with running_moto(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict)
        with pytest.raises(WiringError, match="allows kms:Encrypt and kms:Decrypt to these credentials"):
            KmsMaster(key).wrap(b"key")


def test_without_credentials_or_a_region_the_setting_is_named(
    client: Any, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventlib.personal.kms import KmsMaster

    assert client is not None
    with pytest.raises(WiringError, match="set AWS_DEFAULT_REGION"):
        KmsMaster("alias/shop")
    with pytest.raises(WiringError, match="names no key"):
        open_master(PersonalOptions(personal_master="aws-kms:"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(WiringError, match="AWS_PROFILE"):
        KmsMaster(key).wrap(b"key")


class Busy(BaseHTTPRequestHandler):
    """A KMS that answers what its path says: a status, and an error's code."""

    def do_POST(self) -> None:
        _, status, code = self.path.split("/")[:3]
        body = json.dumps({"__type": code, "message": "later"}).encode()
        self.send_response(int(status))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.parametrize("answer", ["400/ThrottlingException", "500/KMSInternalException", "503/Unknown"])
def test_what_may_pass_is_retryable(client: Any, key: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlib.personal.kms import KmsMaster

    assert client is not None
    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}/{answer}")
        with pytest.raises(LogUnavailable, match="later"):
            KmsMaster(key).wrap(b"key")
        server.shutdown()
        thread.join()
    with pytest.raises(LogUnavailable, match="does not answer"):
        KmsMaster(key).wrap(b"key")
