"""A log in an SQLite file of which this process owns every task, so that no service writes to it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from eventlib.errors import WiringError
from eventlib.ground.url import log_file
from eventlib.log.base import Claim, Membership
from eventlib.log.sqlite.log import SqliteLog
from eventlib.model.topic import Topic

_CHANGELOG = ".changelog"
_PATIENCE_S = 6.0  # an owner on another machine is presumed dead after half of that


@asynccontextmanager
async def held(url: str) -> AsyncIterator[SqliteLog]:
    """Open a log in an SQLite file, and own every task of every service on it until the context is left.

    Guarantee: no service writes to it meanwhile; external publishers may.
    Raises: WiringError when a service runs on it, or it is no such log; what opening it raises.
    """
    path = _path_of(url)
    log = await SqliteLog.open(path)
    members = list[Membership]()
    try:
        for service, partitions in services_on(await log.topics()).items():
            member = await log.join(service, partitions)
            members.append(member)
            await _own_all(member, service, partitions, url)
        yield log
    finally:
        for member in members:
            await member.leave()
        await log.close()


def services_on(topics: Mapping[str, Topic]) -> dict[str, int]:
    """Return the services that have written to a log, with the number of their tasks."""
    return {
        name.removesuffix(_CHANGELOG): topic.partitions for name, topic in topics.items() if name.endswith(_CHANGELOG)
    }


async def _own_all(member: Membership, service: str, partitions: int, url: str) -> None:
    claims: Mapping[int, Claim] = {}
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while len(claims) < partitions:
                claims = await member.moved(claims)
    except TimeoutError as error:
        raise WiringError(
            f"service {service} runs on {url}: stop it, copy, and start it on the copy (`eventlib doctor` shows who runs it)"
        ) from error


def _path_of(url: str) -> Path:
    path = log_file(url)
    if path is None:
        raise WiringError(f"--from {url}: a copy is made from a log in a file, sqlite:///path/to.db")
    if not path.is_file():
        raise WiringError(f"--from {url}: there is no log at {path}")
    return path
