"""The pytest plugin `eventlib_corpus`: decides the application's corpus again, one test for each decision.

It does nothing unless pyproject.toml has [tool.eventlib] corpus = "DIR", or `--eventlib-corpus DIR` is given.
"""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from eventlib.proof import DifferenceGroup
    from eventlib.proof.corpus import CorpusDecision
    from eventlib.proof.corpus.files import Unreadable
    from eventlib.proof.expected import Expected
    from eventlib.replay.comparison import Describer

_ACCEPTED = pytest.StashKey["Accepting"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("eventlib", "eventlib: a corpus of recorded decisions")
    group.addoption("--eventlib-corpus", metavar="DIR", help="Decide the corpus in this directory again.")
    group.addoption(
        "--accept-difference",
        metavar="REASON",
        help="Declare the corpus's differences as expected, with a reason, in expected-differences.toml.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an acceptance without a reason, or one that several processes would write."""
    reason = config.getoption("--accept-difference")
    if reason is None:
        return
    if not reason.strip():
        raise pytest.UsageError("--accept-difference needs a reason: it is what a reviewer reads")
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--accept-difference writes one file: run it in one process, with -n 0")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the corpus to the tests, unless others were named."""
    given = config.getoption("--eventlib-corpus")
    is_named = config.args_source is pytest.Config.ArgsSource.ARGS
    directory = given or (None if is_named else _configured(config.rootpath))
    if directory is None:
        if config.getoption("--accept-difference") is not None:
            raise pytest.UsageError("--accept-difference is about a corpus: name it with --eventlib-corpus DIR")
        return
    collector = _CorpusTests.from_parent(session, name="eventlib_corpus", path=config.rootpath / directory)
    items += collector.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was accepted."""
    accepting = session.config.stash.get(_ACCEPTED, None)
    if accepting is not None:
        accepting.write()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was accepted."""
    accepting = config.stash.get(_ACCEPTED, None)
    if accepting is not None:
        terminalreporter.write_line(accepting.told)


def _configured(root: Path) -> str | None:
    try:
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    found = settings.get("tool", {}).get("eventlib", {}).get("corpus")
    return None if found is None else str(found)


class Accepting:
    """Differences that are declared as expected at the end of the run."""

    def __init__(self, expected: "Expected", reason: str) -> None:
        self._expected = expected
        self._reason = reason
        self._groups = dict[Any, Any]()
        self.told = "no difference to accept"

    def add(self, group: "DifferenceGroup") -> None:
        """Accept a kind of difference."""
        self._groups[group.signature] = group

    def write(self) -> None:
        """Write what was accepted."""
        if self._groups:
            count = self._expected.accept([*self._groups.values()], self._reason)
            self.told = f"{count} kind{'s' * (count != 1)} of difference declared in {self._expected.path}"


class _CorpusTests(pytest.Collector):
    """All tests of a corpus."""

    def collect(self) -> list[pytest.Item]:
        """Return a test for each decision."""
        from eventlib.errors import EventlibError

        try:
            return [*self._items()]
        except EventlibError as error:
            raise pytest.UsageError(f"eventlib_corpus: {error}") from error

    def _items(self) -> Iterator[pytest.Item]:
        from eventlib.model.project import load_choreography, nearest
        from eventlib.proof.corpus import Corpus
        from eventlib.proof.expected import Expected
        from eventlib.replay.comparison import Describer

        corpus = Corpus.open(self.path)
        choreography = load_choreography(None, self.config.rootpath)
        expected = Expected.read(nearest(self.config.rootpath)[0])
        reason = self.config.getoption("--accept-difference")
        if reason is not None:
            self.config.stash[_ACCEPTED] = Accepting(expected, reason.strip())
        describer = Describer(choreography)
        for name, decision in corpus.decisions(choreography):
            item: _DecisionTest = _DecisionTest.from_parent(self, name=name)
            item.about(decision, describer, expected)
            yield item


class Differs(Exception):
    """A decision of the corpus that the current code makes otherwise."""


class _DecisionTest(pytest.Item):
    """Decides one decision again."""

    def about(self, decision: "CorpusDecision | Unreadable", describer: "Describer", expected: "Expected") -> None:
        self._decision = decision
        self._describer = describer
        self._expected = expected

    def runtest(self) -> None:
        """Decide it. Raises: Differs."""
        from eventlib.proof.differing import Changed, Grouping

        if isinstance(self._decision, Exception):
            raise Differs(str(self._decision))
        difference = self._decision.difference(self._describer)
        if difference is None:
            return
        grouping = Grouping()
        grouping.add(Changed(difference.then, difference))
        (group,) = grouping.groups()
        reason = self._expected.reasons.get(group.signature)
        accepting = self.config.stash.get(_ACCEPTED, None)
        if reason:
            pytest.xfail(f"expected: {reason}")
        elif accepting is not None:
            accepting.add(group)
        else:
            raise Differs("\n".join(_lines(group)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the difference; whatever else it is, as usual."""
        if isinstance(excinfo.value, Differs):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the test is, and its name."""
        return self.path, None, f"corpus: {self.name}"


def _lines(group: "DifferenceGroup") -> Iterable[str]:
    from eventlib.proof.formats import group_line
    from eventlib.replay.difference_lines import difference_lines
    from eventlib.values import escaped

    difference = group.example.difference
    yield f"{group_line(group)}, for key {difference.key}"
    yield f"    on {difference.input.type} {dict(difference.input.facts)}"
    for sign, line in difference_lines(difference.then, difference.now, difference.why):
        yield f"  {sign} {escaped(line)}"
    yield "intended? --accept-difference REASON declares it in expected-differences.toml"
