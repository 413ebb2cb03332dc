"""Jars from Maven Central: fetched once by the Ivy that comes with PySpark, held to their pinned sums at every start."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from eventlib.broker.java import Java
from eventlib.errors import BrokerFailed

IVY_SETTINGS_VARIABLE = "EVENTLIB_IVY_SETTINGS"
_FETCH_S = 900
_TELLING = ("unresolved dependency", "not found", "error", "exception", "download failed")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar."""

    organisation: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file's name."""
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are used together, as a lock file pins them.

    `name` and the version of the jar called `main` name the directory that they are kept in; `title` is for people.
    """

    title: str
    name: str
    main: str
    lock: Path

    @property
    def version(self) -> str:
        """The pinned version of what it is about."""
        return next(jar.version for jar in self.pinned() if jar.name == self.main)

    def pinned(self) -> tuple[Jar, ...]:
        """Return the jars."""
        return _pinned(self.lock)

    def default_place(self) -> Path:
        """Return where they are kept for all projects of this user: below XDG_CACHE_HOME, or ~/.cache."""
        home = os.environ.get("XDG_CACHE_HOME")
        caches = Path(home) if home else Path.home() / ".cache"
        return caches / "eventlib" / f"{self.name}-{self.version}"

    def is_at(self, place: Path) -> bool:
        """Tell whether a directory has all of them, each with its pinned sum."""
        return place.is_dir() and not self._misfits(place)

    def fetched(self, java: Java, place: Path) -> Path:
        """Return the directory with the jars, each with its pinned sum; fetch them when they are not there.

        Guarantee: a directory that exists is whole, also when several processes fetch at the same time or one dies.
        Raises: BrokerFailed when they cannot be fetched, or are not those that were pinned.
        """
        if self.is_at(place):
            return place
        if place.is_dir():
            shutil.rmtree(place)  # damaged since: as good as not there
        self._make_room(place.parent)
        with tempfile.TemporaryDirectory(prefix=f"{place.name}-", dir=place.parent) as scratch:
            fetched = self._fetch(java, Path(scratch))
            misfits = self._misfits(fetched)
            if misfits:
                raise BrokerFailed(
                    f"what was fetched as {', '.join(misfits)} is not what this project has pinned, and was thrown away: "
                    "fetch again; if it stays so, the repository or a proxy before it hands out something else"
                )
            try:
                fetched.rename(place)
            except OSError:
                if self._misfits(place):  # else another process was faster, with the same jars
                    raise
        return place

    def _misfits(self, place: Path) -> list[str]:
        return [jar.file for jar in self.pinned() if _sha256(place / jar.file) != jar.sha256]

    def _make_room(self, place: Path) -> None:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BrokerFailed(
                f"{self.title} cannot be kept in {place} ({error.strerror}): name another place with XDG_CACHE_HOME"
            ) from error

    def _fetch(self, java: Java, scratch: Path) -> Path:
        wanted, jars = scratch / "ivy.xml", scratch / "jars"
        wanted.write_text(_ivy_module(self.pinned()), encoding="utf-8")
        settings = os.environ.get(IVY_SETTINGS_VARIABLE)
        command = [
            *(str(java.executable), "-jar", str(_ivy()), "-ivy", str(wanted), "-confs", "default"),
            *("-cache", str(scratch / "ivy"), "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
            *(("-settings", settings) if settings else ()),
        ]
        try:
            done = subprocess.run(  # noqa: S603  a Java of this machine, with arguments of our own
                command, capture_output=True, text=True, errors="replace", timeout=_FETCH_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise self._unfetched(f"nothing has come for {_FETCH_S} s") from error
        if done.returncode or not jars.is_dir():
            raise self._unfetched(_reason(done.stdout + done.stderr))
        return jars

    def _unfetched(self, reason: str) -> BrokerFailed:
        return BrokerFailed(
            f"{self.title} {self.version} could not be fetched from Maven Central ({reason}): needed once, with a "
            f"network; behind a mirror name an Ivy settings file with {IVY_SETTINGS_VARIABLE}, "
            f"or copy {self.default_place()} from a machine that has it"
        )


KAFKA = JarSet("Apache Kafka", "kafka", "kafka-server", Path(__file__).with_name("jars.lock"))
"""What makes a broker."""


@cache
def _pinned(lock: Path) -> tuple[Jar, ...]:
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return tuple(_jar(*line.split()) for line in lines)


def _jar(sha256: str, coordinates: str) -> Jar:
    organisation, name, version = coordinates.split(":")
    return Jar(organisation, name, version, sha256)


def _sha256(file: Path) -> str | None:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def _reason(said: str) -> str:
    lines = [line.strip().removeprefix(":: ").removesuffix("::").strip() for line in said.splitlines()]
    telling = [line for line in lines if any(word in line.lower() for word in _TELLING)]
    return "; ".join(dict.fromkeys(telling[-2:])) or "Ivy has not said why"


def _ivy() -> Path:
    spark = find_spec("pyspark")
    places = (spark.submodule_search_locations if spark else None) or []
    found = sorted(jar for place in places for jar in Path(place).glob("jars/ivy-*.jar"))
    if not found:
        raise BrokerFailed("jars are fetched by the Ivy in PySpark, which is not installed: install pyspark")
    return found[-1]


def _ivy_module(jars: Iterable[Jar]) -> str:
    """Return an Ivy module that asks for each pinned jar by itself, so that nothing is left to resolve."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="default->master(default)"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="eventlib" module="broker"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )
