"""Deployments as facts on the log: which code and revision each service runs, since when, and what a preview has found."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path

from eventlib.errors import RetryableError
from eventlib.eventlog import EventLog
from eventlib.log.base import Log
from eventlib.operations.shared_notes import SharedNote, SharedNotes
from eventlib.runtime.records import code_version
from eventlib.values import escaped, from_ms, iso, now_ms

_log = logging.getLogger(__name__)
_KIND = "deployment"
_KEPT = 200
"""How many deployments of a service are kept."""
REVISION_VARIABLES = (
    "GIT_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "CIRCLE_SHA1", "BUILDKITE_COMMIT", "BITBUCKET_COMMIT", "BUILD_SOURCEVERSION",
    "SOURCE_VERSION", "HEROKU_SLUG_COMMIT", "RENDER_GIT_COMMIT", "RAILWAY_GIT_COMMIT_SHA",
)  # fmt: skip
"""Variables in which CI systems and platforms give the commit that is built or deployed."""
_GIT = ("git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
_GIT_S = 10.0
_PAUSES_S = (1.0, 5.0, 20.0)


@dataclass(frozen=True, slots=True)
class ServiceDeployment:
    """The first start of a service's code, `at_ms`: its version and revision (empty: not known), the host, and this library's version.

    One that `is_recorded` is on the log as such; another follows from what the journals name, and is known no closer.
    """

    service: str
    code_version: str
    at_ms: int
    revision: str = ""
    host: str = ""
    library: str = ""
    is_recorded: bool = True

    def follows(self, before: "ServiceDeployment | None") -> bool:
        """Return whether it is a deployment, if `before` is the one before it; an unknown revision differs from none."""
        if before is None or before.code_version != self.code_version:
            return True
        return bool(self.revision) and self.revision != before.revision

    def is_before(self, first: "ServiceDeployment | None") -> bool:
        """Return whether it is of other code, and older, than the `first` of its service that is recorded."""
        return first is None or (self.at_ms < first.at_ms and self.code_version != first.code_version)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One code that services were started with, one after the other; `before` has the version that each of them had, if that is known.

    With `is_return`, a service had this code already before another one: it was rolled back, or a process of the
    older code was started again while two were running.
    """

    parts: tuple[ServiceDeployment, ...]
    before: Mapping[str, str]
    is_return: bool = False

    @property
    def id(self) -> str:
        """Its name in addresses and commands."""
        return f"{self.at_ms}-{self.code_version}"

    @property
    def at_ms(self) -> int:
        """When the first of its services was started."""
        return self.parts[0].at_ms

    @property
    def code_version(self) -> str:
        """The version of the code."""
        return self.parts[0].code_version

    @property
    def revision(self) -> str:
        """The revision of the code; empty when it is not known."""
        return next((each.revision for each in self.parts if each.revision), "")

    @property
    def revision_shown(self) -> str:
        """The revision for people: a commit's id is shortened."""
        return _COMMIT.sub(r"\1", self.revision)

    @property
    def at(self) -> str:
        """When the first of its services was started, as text."""
        return iso(from_ms(self.at_ms))

    @property
    def services(self) -> tuple[str, ...]:
        """The services, in the order in which they were started."""
        return tuple(each.service for each in self.parts)

    @property
    def is_recorded(self) -> bool:
        """Whether it is on the log as such."""
        return any(each.is_recorded for each in self.parts)

    def json(self) -> dict[str, object]:
        """Return it as commands and the admin API print it."""
        parts = [{**asdict(each), "at": iso(from_ms(each.at_ms))} for each in self.parts]
        shown = ("service", "at", "host", "library")
        return {
            "id": self.id,
            "at": self.at,
            "code_version": self.code_version,
            "revision": self.revision or None,
            "is_return": self.is_return,
            "services": [{**{name: each[name] or None for name in shown}, "before": self.before.get(str(each["service"]))} for each in parts],
        }  # fmt: skip


async def deployments(log: Log, derived: Iterable[ServiceDeployment] = ()) -> list[Deployment]:
    """Return what is recorded of deployments, the newest first, with those `derived` that are older than the first of their service.

    Raises: LogUnavailable and the like.
    """
    recorded = sorted(_read(await SharedNotes(log).all(_KIND)).values(), key=_in_time)
    first = {each.service: each for each in reversed(recorded)}
    older = [each for each in derived if each.is_before(first.get(each.service))]
    return _grouped(sorted([*recorded, *older], key=_in_time))


def newest_of(found: Sequence[Deployment]) -> dict[str, Deployment]:
    """Return the newest deployment of each service, of those that have the newest first."""
    return {service: each for each in reversed(found) for service in each.services}


def _in_time(each: ServiceDeployment) -> tuple[int, str]:
    return each.at_ms, each.service


def _read(notes: Mapping[str, SharedNote]) -> dict[str, ServiceDeployment]:
    """Return the deployments in notes; a note of something else is in the way of no other."""
    types, found = {each.name: type(each.default) for each in fields(ServiceDeployment)}, dict[str, ServiceDeployment]()
    types |= {"service": str, "code_version": str, "at_ms": int}
    for name, note in notes.items():
        value = note.value if isinstance(note.value, dict) else {}
        known = {each: value[each] for each in types if each in value}
        if {"service", "code_version", "at_ms"} <= {*known} and all(type(known[each]) is types[each] for each in known):
            found[name] = ServiceDeployment(**known)
        else:
            _log.warning("_operations: %s/%s is not a deployment, and is left out", _KIND, escaped(name))
    return found


def _grouped(found: Iterable[ServiceDeployment]) -> list[Deployment]:
    """Return deployments of services in groups of one code, the newest first: what several processes have recorded counts once."""
    newest, known, groups = dict[str, ServiceDeployment](), set[tuple[str, str]](), list[Deployment]()
    for each in found:
        before = newest.get(each.service)
        if not each.follows(before):
            continue
        newest[each.service] = each
        had = {} if before is None else {each.service: before.code_version}
        code = (each.code_version, each.revision)
        last = next((group for group in reversed(groups) if (group.code_version, group.revision) == code), None)
        if last is not None and each.service not in last.services:
            groups[groups.index(last)] = Deployment((*last.parts, each), {**last.before, **had}, last.is_return)
        else:
            is_other = before is None or before.code_version != each.code_version
            groups.append(Deployment((each,), had, is_other and (each.service, each.code_version) in known))
        known.add((each.service, each.code_version))
    return groups[::-1]


async def record_deployments(log: EventLog, services: Sequence[str], revision: str) -> list[ServiceDeployment]:
    """Record the deployment of services whose newest recorded one is of other code, and return what was recorded.

    Guarantee: each code of a service is recorded, whatever other processes record meanwhile; twice at most once for each
    process that starts with it at the same time, which `deployments` counts as one. The oldest of a service are deleted.
    """
    notes, code = SharedNotes(log.port), code_version(log.choreography)
    known = _read(await notes.all(_KIND))
    recorded = list[ServiceDeployment]()
    for service in services:
        own = sorted((each.at_ms, name) for name, each in known.items() if each.service == service)
        new = ServiceDeployment(service, code, now_ms(), revision, socket.gethostname(), version("eventlib-sagas"))
        if new.follows(known[own[-1][1]] if own else None):
            value = {name: field for name, field in asdict(new).items() if name != "is_recorded"}
            await notes.put(_KIND, f"{service}/{new.at_ms}-{code}", value, "eventlib run")
            recorded.append(new)
            for _, name in own[: max(len(own) + 1 - _KEPT, 0)]:
                await notes.delete(_KIND, name, "eventlib run")
    return recorded


async def recording(log: EventLog, services: Sequence[str], revision: str, directory: Path) -> None:
    """Record what services are started with, beside them; what prevents that is one warning, and nothing else."""
    try:
        found = revision or await revision_of(directory)
        for pause_s in _PAUSES_S:
            with suppress(RetryableError):
                await record_deployments(log, services, found)
                return
            await asyncio.sleep(pause_s)
        await record_deployments(log, services, found)
    except Exception as error:  # noqa: BLE001  the services run without it
        _log.warning("this deployment is not recorded on the log: %s", error)


async def revision_of(directory: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the revision of the code in a directory: what a CI system says, else that of its checkout; empty if neither is known.

    A checkout with changes that are not committed has `-dirty` behind it.
    """
    given = os.environ if environment is None else environment
    named = next((given[name].strip() for name in REVISION_VARIABLES if given.get(name, "").strip()), "")
    if named:
        return named
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    with suppress(OSError, TimeoutError, UnicodeDecodeError):
        process = await asyncio.create_subprocess_exec(*_GIT, cwd=directory, stdin=none, stdout=pipe, stderr=none)
        try:
            async with asyncio.timeout(_GIT_S):
                out, _ = await process.communicate()
                return out.decode().strip() if process.returncode == 0 else ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return ""
