"""Runs a page of the documentation as its reader does: its files, its Python, and its commands, in one directory."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile, copytree
from types import TracebackType
from typing import Any, Self

import pytest

from tests import forked
from tests.commands import NO_PLUGINS, Run, ended

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:^ *<!-- no-run: ([^\n]+) -->\n)?^( *)```(\w*) ?([^\n]*)\n(.*?)^\2```", re.DOTALL | re.MULTILINE)
RUN = {"console", "python"}
LOOKING = re.compile(
    r"eventlib (saga|state|history|status|tail|topics|parked list|parked show|replay|(webhook|sink|outbox) status) ?|curl -s |cat "
)
"""Commands that only read, and so may be asked again until the services have come as far as the page shows."""

_VARIES = [
    (r"\x1b\[[0-9;]*m", ""),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(?:\.\d+)?", "TIME"),
    (r"\b[0-9a-f]{8,64}\b", "ID"),
    (r"[\d,.]+ (?:ms|s|MB)\b", "SO MUCH"),
    (r"\S+:\d{4,7}\b", "HOST:NUMBER"),
    (r"[│├└─]+", " "),
    (r"\s+", " "),
]
_PYTHONS = re.compile(
    r"(?:eventlib|python(?: -m \w+| \w+\.py))(?: (?:[^\s|&;<>()$`\\\"'*?~\[{#]|'[^']*'|\"[^\"$`\\\n]*\"| )*)?$"
)
"""Commands of Python that mean the same without a shell."""

_DEMO = "python -m services demo "
_demos = dict[str, Path]()
"""Where the directory and the output of each demo that a page has run are kept: the next page's demo leaves the same."""

_PATIENCE_S = 30.0
_END = "the command has ended with"


@dataclass(frozen=True)
class Block:
    """A block of code on a page: its language, the rest of its info string, its text, and why it is not run."""

    language: str
    info: str
    text: str
    no_run: str

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.no_run

    @property
    def title(self) -> str:
        found = re.search(r'title="([^"]+)"', self.info)
        return found[1] if found else ""


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, without the indentation of a list or an admonition that they stand in."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [
        Block(language, info, re.sub(f"^{indent}", "", text, flags=re.MULTILINE), no_run)
        for no_run, indent, language, info, text in found
    ]


def matches(shown: str, printed: str) -> bool:
    """Tell whether a command printed what a page shows; `...` stands for a part of a line, or for lines."""
    pattern = "".join(
        "(?:[^\n]*\n)*?" if line.strip() in {"...", "…"} else re.sub(r"\\\.\\\.\\\.|…", ".*", re.escape(line)) + "\n"
        for line in _plain(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _plain(printed))) is not None


def _plain(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for pattern, instead in _VARIES:
            line = re.sub(pattern, instead, line)  # noqa: PLW2901  step by step
        if line.strip():
            yield line.strip()


def session(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the output that is shown under it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"output before the first command: {parts[0]}"
    found = [re.match(r"((?:.*\\\n)*(?:.*<<'END'\n(?s:.*?)\nEND|.*))\n?((?s:.*))", part) for part in parts[1:]]
    return [(each[1], each[2]) for each in found if each is not None]


class Reader:
    """One shell and one Python namespace in a directory, for all blocks of a page.

    Commands that begin with a key of `here` are run in this process, which has to be in that directory; Python's, that
    need no shell, with the library imported if `forks`.
    """

    def __init__(
        self,
        directory: Path,
        environment: dict[str, str],
        here: Mapping[str, Run] | None = None,
        forks: bool = False,
    ) -> None:
        self.directory = directory
        self._here, self._forks = here or {}, forks
        self._names: dict[str, Any] = {"__name__": "docs"}
        self._outputs = 0
        self._cwd, self._environment = directory, environment
        command = ["bash", "--noprofile", "--norc"]
        self._shell = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):  # the shell, and what it has left in the background
            with suppress(ProcessLookupError):
                os.killpg(self._shell.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._shell.communicate(timeout=10)

    def read(self, block: Block) -> None:
        """Write the block's file, or run what it shows."""
        if block.title:
            path = self.directory / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "python" and block.runs:
            exec(compile(block.text, str(self.directory / "a block"), "exec"), self._names)  # noqa: S102  our own text
        elif block.language == "console" and block.runs:
            for command, shown in session(block.text):
                self._check(command, shown)

    def _check(self, command: str, shown: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        code, path = self._run(command)
        while not (code == 0 if not shown.strip() else matches(shown, path.read_text(encoding="utf-8"))):
            if time.monotonic() > until or (command[-1] != "&" and not LOOKING.match(command)):
                pytest.fail(f"$ {command}\n{path.read_text(encoding='utf-8')}(exit code {code})\nshown is:\n{shown}")
            time.sleep(0.3)
            if command[-1] != "&":  # what it prints in the background comes when it comes
                code, path = self._run(command)

    def _run(self, command: str) -> tuple[int, Path]:
        self._outputs += 1
        path = self.directory.with_name(f"output-{self._outputs}")
        for begin, run in self._here.items():
            if command.startswith(begin):
                done = ended(*shlex.split(command.removeprefix(begin)), by=run)
                path.write_text(done.stderr + done.stdout, encoding="utf-8")
                return done.returncode, path
        if self._forks and _PYTHONS.match(command):
            return self._fork(command, path), path
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        kept = self.directory.with_name("environment")
        self._shell.stdin.write(
            f"{{ {command}\n}} >{path} 2>&1 </dev/null\necho {_END} $?\n{{ pwd; env -0; }} >{kept}\necho kept\n"
        )
        self._shell.stdin.flush()
        line = self._shell.stdout.readline()
        assert line.startswith(_END), f"the shell has ended at: {command}"
        assert self._shell.stdout.readline() == "kept\n"
        cwd, _, variables = kept.read_text(encoding="utf-8").partition("\n")
        self._cwd = Path(cwd)
        self._environment = dict(each.split("=", 1) for each in variables.split("\0") if "=" in each)
        return int(line.split()[-1]), path

    def _fork(self, command: str, path: Path) -> int:
        left = self._cwd / "var"
        begins = command.startswith(_DEMO) and not left.exists()
        if begins and command in _demos:
            copytree(_demos[command] / "var", left)
            copyfile(_demos[command] / "printed", path)
            return 0
        with path.open("wb") as file:
            where: dict[str, Any] = {"cwd": self._cwd, "env": self._environment, "stdin": subprocess.DEVNULL}
            code = forked.run(shlex.split(command), **where, stdout=file, stderr=file).returncode
        if begins and code == 0:
            kept = _demos[command] = self.directory.with_name("demo")
            copytree(left, kept / "var")
            copyfile(path, kept / "printed")
        return code


def read_page(
    page: Path,
    temporary: Path,
    here: Mapping[str, Run] | None = None,
    instead: Mapping[str, str] | None = None,
    forks: bool = False,
) -> None:
    """Run a page from its top to its end, as a reader who has the repository where it says that it needs it.

    In its commands and their output, each key of `instead` stands for its value: an address that is another one here.
    """
    directory = temporary / "reader"
    directory.mkdir()
    if "<!-- in the repository -->" in page.read_text(encoding="utf-8"):
        for part in ("pyproject.toml", "services", "examples"):
            (directory / part).symlink_to(ROOT / part)
    with pytest.MonkeyPatch.context() as patch, Reader(directory, environment(), here, forks) as reader:
        patch.chdir(directory)
        patch.syspath_prepend(directory)
        for block in blocks(page):
            text = block.text
            for shown, here_it_is in (instead or {}).items() if block.language == "console" else ():
                text = text.replace(shown, here_it_is)
            reader.read(replace(block, text=text))


def environment() -> dict[str, str]:
    """Return the environment of a reader: the project's commands are on the path, and nothing is configured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EVENTLIB", "SHOP", "OTEL"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "COLUMNS": "100", "PYTEST_ADDOPTS": f"{NO_PLUGINS} -p no:cacheprovider -W ignore"}
