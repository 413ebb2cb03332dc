"""The images of deploy/Dockerfile without Docker: a directory each, with the packages that it installs and no others.

Our own wheel is built and installed by the Dockerfile's own commands; the packages of others, which its lock names, are
links to those of the environment that the tests run in, so that nothing is fetched.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from analytics.connectors import connectors
from analytics.java_home import java_home_in
from eventlib.devtools.kafka.java import find_java

ROOT = Path(__file__).parents[2]
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.so")  # as Dockerfile.dockerignore says


@dataclass(frozen=True)
class Image:
    """An image's /opt, in a directory of its own."""

    target: str
    opt: Path

    @property
    def bin(self) -> Path:
        """What PATH begins with."""
        return self.opt / "shop" / "bin"

    def own_files(self) -> dict[str, int]:
        """Return every file that is not a link, with its time: they stay as they are while it runs."""
        files = (Path(place, name) for place, _, names in os.walk(self.opt) for name in names)
        return {str(path): path.lstat().st_mtime_ns for path in files if not path.is_symlink()}


def build_wheel(directory: Path) -> Path:
    """Build our wheel of no more than what the Dockerfile copies."""
    source = directory / "source"
    for name in ("analytics", "eventlib"):
        shutil.copytree(ROOT / name, source / name, ignore=_LEFT_OUT)
    for name in ("LICENSE", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory / "own"), str(source))
    (wheel,) = (directory / "own").glob("*.whl")
    return wheel


def build_image(target: str, wheel: Path, directory: Path) -> Image:
    """Make an image's /opt in a directory."""
    image = Image(target, directory / target / "opt")
    shop = image.opt / "shop"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", shop], check=True)
    link(_locked(target), shop)
    install(wheel, image.bin)
    shutil.copytree(ROOT / "services", shop / SITE / "services", ignore=_LEFT_OUT)
    if target == "spark":
        _complete_spark(shop / SITE / "pyspark")
        java_home_in(image.opt / "java")
    return image


def install(distribution: Path, programs: Path) -> None:
    """Install our wheel or sdist into the environment whose programs are in this directory, and nothing else."""
    alone = ("--no-deps", "--no-index", "--no-build-isolation")
    _pip("--python", str(programs / "python"), "install", *alone, str(distribution))


def needed(extras: Iterable[str]) -> set[str]:
    """Return the names of all packages that ours needs on this machine, as the installed ones say."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, seen = set[str](), set[tuple[str, str]]()
    waiting = [(each, "") for each in [*map(Requirement, project["dependencies"]), *_of_extras(project, extras)]]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found.add(name)
        for asked in {"", *requirement.extras}:
            if (name, asked) not in seen:
                seen.add((name, asked))
                theirs = importlib.metadata.requires(name) or []
                waiting += [(Requirement(each), asked) for each in theirs]
    return found


def _of_extras(project: Mapping[str, Any], extras: Iterable[str]) -> Iterator[Requirement]:
    for requirement in (Requirement(each) for extra in extras for each in project["optional-dependencies"][extra]):
        if requirement.name == project["name"]:
            yield from _of_extras(project, requirement.extras)
        else:
            yield requirement


def link(names: Iterable[str], place: Path) -> None:
    """Put packages of this environment into another one, as links."""
    for part in ("bin", SITE):
        (place / part).mkdir(parents=True, exist_ok=True)
    for name in names:
        _link(name, place)


def _pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *quiet], check=True, cwd=ROOT)


def _locked(target: str) -> Iterable[str]:
    """Return those packages of an image's lock that are for this machine."""
    text = (ROOT / "deploy" / "locks" / f"{target}.lock").read_text(encoding="utf-8")
    for name in dict.fromkeys(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)):
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # another machine's
        yield name


def _link(name: str, shop: Path) -> None:
    distribution = importlib.metadata.distribution(name)
    here = Path(str(distribution.locate_file("")))
    for path in {Path(file) for file in distribution.files or ()}:
        if path.parts[:4] == ("..", "..", "..", "bin"):
            shutil.copy((here / path).resolve(), shop / "bin" / path.name)
        elif path.parts[0] != ".." and "__pycache__" not in path.parts[:1]:
            _link_part(here, shop / SITE, path)


def _link_part(here: Path, there: Path, file: Path) -> None:
    """Link the topmost directory that belongs to one package alone; those that several share are made."""
    part = Path()
    for piece in file.parts:
        part /= piece
        source, target = here / part, there / part
        if target.is_symlink():
            return
        if source.is_dir() and not (source / "__init__.py").exists() and not piece.endswith((".dist-info", ".libs")):
            target.mkdir(parents=True, exist_ok=True)
            continue
        if source.exists():
            target.symlink_to(source)
        return


def _complete_spark(pyspark: Path) -> None:
    """Put Spark's connectors among its jars, as the Dockerfile does."""
    whole = pyspark.resolve()
    pyspark.unlink()
    (pyspark / "jars").mkdir(parents=True)
    for path in whole.iterdir():
        if path.name != "jars":
            (pyspark / path.name).symlink_to(path)
    for jar in [*(whole / "jars").iterdir(), *connectors(find_java(), fetch=True)]:
        (pyspark / "jars" / jar.name).symlink_to(jar)
