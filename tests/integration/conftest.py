"""Logs and commands on them, databases, keys, servers, and clients with tokens, for all tests here."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from eventlib import open_log
from eventlib.cli import run
from eventlib.devtools.kafka import Cluster
from eventlib.personal.secret_file import create_secret
from services.order.api import create_app
from services.order.index import OrderIndex
from tests.apps.small_shop import make_shop
from tests.integration.api_shop import Shop, open_shop, serving
from tests.integration.callers import identity
from tests.integration.parcels_app import APP, ParcelSubmitted
from tests.integration.parcels_log import send
from tests.integration.reopening import Opened, reopened
from tests.integration.repository import Repository
from tests.integration.shop_log import Objects, Print, fill
from tests.issuers import Issuer, asked, ec, rsa, running_issuer
from tests.keycloak import Keycloak, running_keycloak
from tests.postgres import PASSWORD, Postgres, engine_of

if TYPE_CHECKING:
    from aiokafka.admin import AIOKafkaAdminClient
    from sqlalchemy import Engine


@pytest.fixture(scope="session")
def keycloak() -> Iterator[Keycloak]:
    """A Keycloak for all tests of a process: each makes realms of its own."""
    with running_keycloak() as found:
        yield found


@pytest.fixture(params=["memory", "sqlite"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Opens the same log again and again, as restarts do, also with other code."""
    if request.param == "sqlite":
        yield lambda choreography: open_log(f"sqlite:///{tmp_path}/log.db", choreography)
        return
    async with open_log("memory://", make_shop(set()), read_only=True) as kept:  # each test says what is on it
        yield lambda choreography: reopened(kept, choreography)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a log with finished and parked sagas, which tests only read."""
    url = f"sqlite:///{tmp_path_factory.mktemp('log')}/shop.db"
    asyncio.run(fill(url))
    return url


@pytest.fixture(scope="session")
def sent(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[ParcelSubmitted]]:
    """The URL of a log of sixty parcels, which tests only read, and what was sent."""
    url = f"sqlite:///{tmp_path_factory.mktemp('parcels')}/log.db"

    async def filled() -> list[ParcelSubmitted]:
        async with open_log(url, APP) as log:
            return await send(log, 60)

    return url, asyncio.run(filled())


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Callable[[Path | str], list[dict[str, Any]]]:
    """Run `eventlib doctor` on a log, and return what it finds: each finding with a remedy, and the exit code."""

    def examined(log: Path | str) -> list[dict[str, Any]]:
        capsys.readouterr()
        code = run(["doctor", "--log", f"sqlite:///{log}" if isinstance(log, Path) else log, "--json"])
        printed = capsys.readouterr()
        assert printed.err == ""
        found = [json.loads(line) for line in printed.out.splitlines()]
        assert code == any(each["verdict"] == "error" for each in found)
        assert all(each["remedy"] for each in found if each["verdict"] != "ok")
        return found

    return examined


@pytest.fixture
def shown(filled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Print:
    """Run a command on the log, and return what it prints."""
    monkeypatch.setenv("EVENTLIB_LOG", filled)
    monkeypatch.setenv("COLUMNS", "100")

    def show(*arguments: str, code: int = 0) -> str:
        assert run(arguments) == code
        out, err = capsys.readouterr()
        assert err == "" or code
        return out or err

    return show


@pytest.fixture
def objects(shown: Print) -> Objects:
    """Run a command with --json, and return the objects it prints."""

    def read(*arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in shown(*arguments, "--json").splitlines()]

    return read


@pytest.fixture
def master_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a master key, for processes that write personal fields."""
    path = tmp_path / "secrets" / "master.key"
    create_secret(path)
    monkeypatch.setenv("EVENTLIB_PERSONAL_MASTER", f"file:{path}")
    return path


@pytest.fixture
def letters_url(tmp_path: Path, master_key: Path) -> str:  # noqa: ARG001  the key has to be there
    """The URL of a log of letters, whose keys can be made."""
    return f"sqlite:///{tmp_path / 'data' / 'letters.db'}"


@pytest.fixture
def database_url(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database of the test's own."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return postgres.new_database()


@pytest.fixture
def database(database_url: str) -> Iterator["Engine"]:
    """What of that database a test looks at."""
    with engine_of(database_url) as engine:
        yield engine


@pytest.fixture
async def kafka_admin(broker: Cluster) -> "AsyncIterator[AIOKafkaAdminClient]":
    """Kafka's own client for administration, on the broker that all tests share."""
    from aiokafka.admin import AIOKafkaAdminClient  # few of these tests need it

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
def hook_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret of webhooks, where `hooking.declared` names it."""
    from tests.webhook_receiver import SECRET  # and what signs with it, which few of these tests need

    monkeypatch.setenv("HOOK_SECRET", SECRET)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The shop's code in a repository of its own, in which commands run."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return Repository(tmp_path / "shop")


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An issuer of tokens with an RSA and an EC key."""
    async with running_issuer(rsa("one"), ec("two")) as found:
        yield found


@pytest.fixture
async def client(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that believes the issuer, with all that it logs."""
    caplog.set_level(logging.DEBUG)
    async with asked(issuer.identity()) as found:
        yield found


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop whose services run."""
    async with open_shop(tmp_path) as found:
        yield found


@pytest.fixture
async def api(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the shop's order API, which knows the callers of `tests.integration.callers`."""
    async with serving(create_app(shop.log, None, OrderIndex(shop.log), identity())) as found:
        yield found
