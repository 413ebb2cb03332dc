"""`--minutes`: how much of the processors, and how long, the tests of each area take, with all that they start."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

_FILES = 40
_TICKS = os.sysconf("SC_CLK_TCK")
_began = pytest.StashKey[float]()
_counted = pytest.StashKey[float]()
_is_last = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the table."""
    parser.addoption("--minutes", action="store_true", help="show the minutes by area: of processors, and of the clock")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note after which test the processors' time is counted: reading it takes milliseconds."""
    item.stash[_is_last] = nextitem is None or _place(nextitem) != _place(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note where a test begins: with the processors' time it begins where the one before has ended."""
    if item.config.getoption("minutes"):
        item.stash[_began] = time.monotonic()
        if _counted not in item.config.stash:
            item.config.stash[_counted] = _processor_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Put what it has taken into its last report, which xdist brings to where the table is made."""
    if call.when == "teardown" and _began in item.stash:
        processor = item.config.stash[_counted]
        if item.stash[_is_last]:
            item.config.stash[_counted] = _processor_s()
        taken = item.config.stash[_counted] - processor, time.monotonic() - item.stash[_began]
        item.user_properties.append(("taken", (*_place(item), *taken)))
    return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show the table."""
    if not config.getoption("minutes"):
        return
    areas = defaultdict[str, list[tuple[float, float]]](list)
    files = defaultdict[str, list[tuple[float, float]]](list)
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if getattr(report, "when", None) == "teardown" and "taken" in (properties := dict(report.user_properties)):
            area, file, *taken = properties["taken"]
            areas[area].append(tuple(taken))
            files[file].append(tuple(taken))
    terminalreporter.section("minutes by area, and of the costliest files")
    costliest = sorted(files.items(), key=lambda file: -sum(processor for processor, _ in file[1]))[:_FILES]
    for name, each in [*sorted(areas.items()), *costliest]:
        processor, clock = (sum(seconds) / 60 for seconds in zip(*each, strict=True))
        terminalreporter.line(
            f"{name:<48} {len(each):5} tests {processor:6.1f} of processors {clock:6.1f} of the clock"
        )


def _place(item: pytest.Item) -> tuple[str, str]:
    """The area and the file of a test."""
    file = item.nodeid.partition("::")[0]
    directory = file.split("/")[1]
    return (f"{directory}, on a broker" if "broker" in getattr(item, "fixturenames", ()) else directory), file


def _processor_s() -> float:
    """Seconds of processors that this process, what it has started, and what that has started, have taken until now."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # it has none, so no other process has to be looked at
        return sum(os.times()[:4])
    ticks, children = dict[int, int](), defaultdict[int, list[int]](list)
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208  it is done after each test, so it has to be cheap
        with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as stat:  # noqa: PTH123  or it has ended
            fields = stat.read(2_000).rpartition(b")")[2].split()
            ticks[int(name)] = sum(map(int, fields[11:15]))
            children[int(fields[1])].append(int(name))
    family = [os.getpid()]
    for pid in family:
        family += children[pid]
    return sum(ticks.get(pid, 0) for pid in family) / _TICKS
