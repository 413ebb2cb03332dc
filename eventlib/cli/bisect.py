"""`eventlib prove bisect`: which commit first decides otherwise, which sagas that has touched, and what mends them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from eventlib.cli._common import output
from eventlib.cli._common.names import ServicesOption
from eventlib.cli._common.options import JsonOption, LogOptions, SinceOption, option, refuse_missing
from eventlib.cli._common.searching import WhereOption, keys_of, run_on_sagas
from eventlib.cli.diff import print_diff
from eventlib.errors import WiringError
from eventlib.model.project import nearest
from eventlib.proof import Bisected, Commit, Versions
from eventlib.proof import bisect as search
from eventlib.proof.formats import as_json as diff_as_json
from eventlib.proof.sharing import Wanted
from eventlib.replay.report import Difference
from eventlib.values import iso_ms

_NAMED = 10


def bisect(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    good: Annotated[str, option("--from", "GOOD", "A revision that decides rightly.")],
    bad: Annotated[str, option("--to", "BAD", "A later one that does not.")] = "HEAD",
    key: Annotated[list[str] | None, option("--key -k", "KEY", "Only this saga or key; may be repeated.")] = None,
    where: WhereOption = "",
    service: ServicesOption = None,
    since: SinceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the commit that first decides a recorded log otherwise.

    The log is decided by commits between GOOD and BAD, half of the rest each
    time, until one is left whose decisions differ from those of GOOD. It is
    shown with what it decides differently from the commit before it, the sagas
    in which something was recorded that GOOD would not have decided, and the
    command that reprocesses them. --where narrows what counts to sagas that are
    so on the log, in the language of `eventlib sagas list`.

    [dim]Examples:[/dim]
      eventlib prove bisect --from v1.4 --key 536365
      eventlib prove bisect --from v1.4 --to v1.7 --service payment
      eventlib prove bisect --from v1.4 --where "country = 'France' and status = 'ended'"
    """
    refuse_missing(log_options.url)
    wanted = Wanted(service or None, since)

    def told(commit: Commit, left: int, differing: int) -> None:
        line = f"{output.counted(left + 1, 'commit')} left, {differing:,} decisions differ: trying {commit.id[:10]}"
        output.say(line, "dim", stderr=True)

    directory, counts = nearest(Path.cwd())[0], _counting(log_options, frozenset(key or ()), where)
    found = search(log_options.url, directory, log_options.app, Versions(good, bad), wanted, counts, told)
    _print(found, as_json=as_json)


def _counting(log_options: LogOptions, keys: frozenset[str], where: str) -> Callable[[Difference], bool]:
    """Return which decisions count: those of some keys, and of sagas that are so. Raises: WiringError when none is."""
    sagas: frozenset[str] | None = None
    if where.strip():
        sagas = frozenset(run_on_sagas(log_options, partial(keys_of, where)))
        if not sagas:
            raise WiringError(
                f"no saga on the log is so: {where}; `eventlib sagas list --where …` shows those that are"
            )

    def counts(difference: Difference) -> bool:
        about = not keys or difference.saga in keys or difference.key in keys
        return about and (sagas is None or difference.saga in sagas)

    return counts


def _print(found: Bisected, *, as_json: bool) -> None:
    reruns = [f"eventlib rerun begin {service} {service}-again" for service in found.services]
    if as_json:
        output.print_json([_json(found, reruns)])
        return
    commit = found.commit
    head = f"{commit.id[:10]} is the first that decides otherwise: {commit.subject} ({commit.author}, {commit.at})"
    output.say(head, "bold")
    first = found.first
    where = f"First on the log: {first.saga}, {first.handler} on {first.input.type}, {iso_ms(first.at_ms)}"
    output.say(where)
    for skipped in found.skipped:
        output.say(f"Not tried, since it cannot be imported: {skipped.id[:10]}", "yellow")
    if found.touched:
        names = ", ".join(found.touched[:_NAMED]) + (", …" if len(found.touched) > _NAMED else "")
        output.say(f"Recorded otherwise in {output.counted(len(found.touched), 'saga')}: {names}")
        for each in reruns:
            output.say(f"  mended by: {each}, with the right code")
    else:
        output.say("Nothing wrong was recorded yet: no saga has to be mended.")
    output.say()
    print_diff(found.diff, _NAMED)


def _json(found: Bisected, reruns: Sequence[str]) -> Mapping[str, object]:
    first = found.first
    return {
        "commit": found.commit._asdict(),
        "against": found.against,
        "first": {"saga": first.saga, "key": first.key, "at": iso_ms(first.at_ms)},
        "touched": found.touched,
        "mend": reruns,
        "tried": found.tried,
        "skipped": [each.id for each in found.skipped],
        "diff": diff_as_json(found.diff),
    }
