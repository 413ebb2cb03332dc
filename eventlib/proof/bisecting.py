"""Finds the commit that first decides otherwise, and the sagas that it has touched."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from eventlib.errors import WiringError
from eventlib.proof.decided import Code, differences_in
from eventlib.proof.differing import Diff, changed
from eventlib.proof.diffing import Versions, diff
from eventlib.proof.revisions import Commit, Repository
from eventlib.proof.sharing import Wanted
from eventlib.replay.report import Difference

Tried = Callable[[Commit, int, int], None]
"""Called before a commit is tried, with how many commits are left, and how many decisions differ so far."""

Counts = Callable[[Difference], bool]
"""Whether a decision that differs is one of those that are asked about."""


@dataclass(frozen=True, slots=True)
class Bisected:
    """The first commit that decides otherwise than the good revision does, and what that comes to.

    `against` is the commit before it, `first` the first decision on the log that differs, `touched` the sagas in
    which something was recorded that the good revision would not have decided, `services` those whose decisions these are. `skipped` are commits that cannot be imported.
    """

    commit: Commit
    against: str
    diff: Diff
    first: Difference
    touched: tuple[str, ...]
    services: tuple[str, ...]
    tried: int
    skipped: tuple[Commit, ...]


class _Trial:
    """Decides a log by one commit after the other, and compares each with the good one."""

    def __init__(self, repository: Repository, url: str, app: str | None, wanted: Wanted, counts: Counts) -> None:
        self._repository = repository
        self._url, self._app, self._wanted, self._counts = url, app, wanted, counts
        self.tried = 0

    def decided(self, revision: str, place: Path) -> Sequence[Difference]:
        """Return where a revision differs from what was recorded, of the decisions that count."""
        self.tried += 1
        place.mkdir()
        with self._repository.code_of(revision) as directory:
            Code(directory, self._app, revision).decide(self._url, self._wanted, place)
        return [*filter(self._counts, differences_in(place))]


def bisect(  # noqa: PLR0913, PLR0917  named by its only caller
    url: str,
    directory: Path,
    app: str | None,
    ends: Versions,
    wanted: Wanted,
    counts: Counts = lambda _: True,
    told: Tried = lambda *_: None,
) -> Bisected:
    """Return the first commit after the good revision, up to the bad one, that decides the log otherwise than the good one.

    Only decisions that `counts` takes are compared. It is assumed that once a commit decides otherwise, those after it do.
    Raises: WiringError when the bad revision decides as the good one does, or does not come after it; as `diff` does.
    """
    repository = Repository(directory)
    good, bad = ends.base or "", ends.head or "HEAD"
    commits = repository.commits(good, bad)
    if not commits:
        raise WiringError(
            f"no commit leads from {good} to {bad}: name an older revision with --from, a newer one with --to"
        )
    with ExitStack() as open_now:
        place = Path(open_now.enter_context(TemporaryDirectory(prefix="eventlib-bisect-")))
        trial = _Trial(repository, url, app, wanted, counts)
        right = trial.decided(good, place / "good")
        low, high, skipped = 0, len(commits) - 1, list[Commit]()
        differing = [*changed(right, trial.decided(commits[high].id, place / "bad"))]
        if not differing:
            raise WiringError(
                f"{bad} decides as {good} does: nothing to look for. The packages that are installed may "
                "differ, or an effect, whose answers are taken from the log"
            )
        while low < high:
            middle = (low + high) // 2
            told(commits[middle], high - low, len(differing))
            try:
                found = [*changed(right, trial.decided(commits[middle].id, place / commits[middle].id))]
            except WiringError:
                skipped.append(commits.pop(middle))
                high -= 1
                continue
            if found:
                high, differing = middle, found
            else:
                low = middle + 1
    before = commits[high - 1].id if high else repository.commit(good)
    first = min((each.difference for each in differing), key=lambda each: each.place)
    made = diff(url, directory, app, Versions(before, commits[high].id), wanted)
    touched = tuple(sorted({each.saga for each in right}))
    services = tuple(sorted({each.service for each in right}))
    return Bisected(commits[high], before, made, first, touched, services, trial.tried, tuple(skipped))
