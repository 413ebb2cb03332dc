"""Objects in a bucket, against moto's server: conditional writes, lost answers, and the errors of what goes wrong."""

from pathlib import Path
from typing import Any

import pytest

from eventlib.errors import LogDenied, LogUnavailable, OwnershipLost, WiringError
from eventlib.ground.object_store import ObjectStore
from tests.moto import on_this_machine, running_moto
from tests.ports import free_port


def test_of_two_that_have_seen_the_same_state_one_writes(store: ObjectStore) -> None:
    first = store.replace("first", b"1", None)
    with pytest.raises(OwnershipLost, match=rf"another process has written {store}/first"):
        store.replace("first", b"2", None)
    second = store.replace("first", b"2", first)
    with pytest.raises(OwnershipLost):
        store.replace("first", b"3", first)
    assert store.get("first") == (b"2", second)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_write_whose_answer_is_lost_counts_if_it_is_there(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import EndpointConnectionError

    tag, send = store.replace("lost", b"1", None), BaseClient._make_api_call  # noqa: SLF001  where all requests go through

    def lost(client: BaseClient, operation: str, given: Any) -> Any:
        if operation != "PutObject" or is_written:
            answer = send(client, operation, given)
        if operation == "PutObject":
            raise EndpointConnectionError(endpoint_url="here")
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", lost)
    if is_written:
        assert store.replace("lost", b"2", tag) == store.get("lost")[1]
    else:
        with pytest.raises(LogUnavailable, match="try again"):
            store.replace("lost", b"2", tag)
    assert store.get("lost")[0] == (b"2" if is_written else b"1")


def test_objects_are_listed_read_in_parts_and_deleted(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 1_000)
    store.upload(tmp_path / "file", "parts/a")
    store.put("parts/b", b"22")
    assert store.sizes("parts/") == {"parts/a": 256_000, "parts/b": 2}
    with store.open("parts/a") as file:
        file.seek(-256, 2)
        assert file.read() == bytes(range(256))
    store.delete(["parts/a", "parts/never"])
    assert store.sizes("parts/") == {"parts/b": 2}
    for missing in (store.get, store.open):
        with pytest.raises(FileNotFoundError):
            missing("parts/a")


def test_what_is_wrong_is_said_with_what_to_do(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WiringError, match="write s3a://BUCKET/DIR"):
        ObjectStore("s3a://lake")
    with pytest.raises(WiringError, match="there is no bucket elsewhere: make it first"):
        ObjectStore("s3a://elsewhere/tables").put("a", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LogUnavailable, match=f"{store} does not answer"):
        ObjectStore(str(store)).get("a")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(WiringError, match="set AWS_ACCESS_KEY_ID"):
        ObjectStore(str(store)).get("a")


def test_a_store_that_refuses_the_credentials_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_moto(tmp_path, INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        for name, value in on_this_machine(strict).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(LogDenied, match=r"refuses these credentials \(InvalidAccessKeyId\)") as refused:
            ObjectStore("s3a://lake/tables").get("a")
    assert "secret" not in str(refused.value)
