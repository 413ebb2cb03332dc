"""The preview of a deployment: the contracts, the recorded past and what is in flight, under the code that is deployed."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from eventlib.contracts.preflight import verdict
from eventlib.contracts.problem import Problem
from eventlib.model.choreography import Choreography
from eventlib.opening import open_log
from eventlib.proof import formats, in_flight_formats
from eventlib.proof.by_revision import prove_code
from eventlib.proof.decided import Code
from eventlib.proof.differing import Diff
from eventlib.proof.diffing import WORKING_TREE, Versions, diff
from eventlib.proof.formats import count_of
from eventlib.proof.proving import InFlightProof, ProofBounds
from eventlib.proof.revisions import Repository
from eventlib.proof.sharing import Wanted
from eventlib.runtime.records import code_version
from eventlib.values import escaped


@dataclass(frozen=True, slots=True)
class DeploymentPreview:
    """What would come of a deployment.

    `problems` are contracts that it breaks, `past` what its code decides otherwise than is recorded, or than the code that
    runs now, and `ahead` the proof of what is in flight under its code, of this `code_version` and `revision` (empty for
    the working tree).
    """

    problems: Sequence[Problem]
    past: Diff
    ahead: InFlightProof
    code_version: str
    revision: str

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against it; nothing, if no contract breaks, all differences are declared, all ends lawfully, and nothing is damaged."""
        return tuple(self._objections())

    @property
    def damaged(self) -> tuple[str, ...]:
        """The damaged places that the past, or what is in flight, may depend on."""
        return tuple(sorted({*self.past.damaged, *self.ahead.damaged}))

    @property
    def headline(self) -> str:
        """The verdict, in one sentence."""
        if self.objections:
            return f"Do not deploy {self.past.head}: {'; '.join(self.objections)}."
        return f"Nothing speaks against deploying {self.past.head}."

    def _objections(self) -> Iterator[str]:
        yield from objections_to(self.problems, self.past, self.damaged)
        for those, what in ((self.ahead.unlawful, "not lawful"), (self.ahead.open, "not explored to the end")):
            if those:
                yield f"{sum(len(each.keys) for each in those):,} in flight {what}"


def objections_to(problems: Sequence[Problem], past: Diff, damaged: Sequence[str]) -> Iterator[str]:
    """Yield what of contracts, differences and damage speaks against code."""
    if problems:
        yield f"{count_of(len(problems), 'problem')} with contracts"
    if past.unexpected:
        yield f"{count_of(len(past.unexpected), 'kind')} of difference not declared"
    if damaged:
        yield f"{count_of(len(damaged), 'damaged place')} on the log, and what depends on that is not known"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is deployed: the application in a directory, as `versions.head` has it, in the place of `versions.base`.

    Of what is recorded, that since a time is compared. `app` and `scenario` are names as in pyproject.toml (None: those there).
    """

    directory: Path
    versions: Versions
    app: str | None = None
    scenario: str | None = None
    since: datetime | None = None

    def preview(self, url: str, bounds: ProofBounds) -> DeploymentPreview:
        """Return what would come of it on a log; it runs in processes of its own, so that any thread may ask.

        Guarantee: nothing is written to the log, and no effect runs. It holds for what the log has now.
        Raises: WiringError for a revision that there is not, code that cannot be imported, or a log that cannot be replayed.
        """
        with ExitStack() as open_now:
            directory, head, revision = self.directory, self.versions.head, ""
            if head is not None:
                repository = Repository(directory)
                directory, revision = open_now.enter_context(repository.code_of(head)), repository.commit(head)
            code = Code(directory, self.app, head or WORKING_TREE)
            version, problems, ahead = code.run(_under, url, self.scenario, bounds)
        past = diff(url, self.directory, self.app, self.versions, Wanted(since=self.since))
        return DeploymentPreview(problems, past, ahead, version, revision)


def _under(
    code: Code, url: str, scenario: str | None, bounds: ProofBounds
) -> tuple[str, Sequence[Problem], InFlightProof]:
    """Look at a log's contracts and at what is in flight on it, in a process that has the code; return its version, too."""
    with redirect_stdout(sys.stderr):
        choreography = code.load()
        problems = asyncio.run(_broken_contracts(url, choreography))
    return code_version(choreography), problems, prove_code(code, url, scenario, bounds)


async def _broken_contracts(url: str, choreography: Choreography) -> Sequence[Problem]:
    async with open_log(url, choreography, read_only=True) as log:
        return (await verdict(log, sample=0)).problems


def as_json(found: DeploymentPreview) -> Mapping[str, object]:
    """Return it as JSON."""
    return {
        "code_version": found.code_version,
        "revision": found.revision or None,
        "holds": not found.objections,
        "objections": found.objections,
        "contracts": [asdict(each) for each in found.problems],
        "past": formats.as_json(found.past),
        "in_flight": in_flight_formats.as_json(found.ahead),
    }


def as_markdown(found: DeploymentPreview, limit: int) -> str:
    """Return it as a comment on a pull request: the verdict, then what is wrong with contracts, the past, what is in flight."""
    parts = [f"# {formats.plain(found.headline)}"]
    if found.problems:
        parts.append("\n".join(["## Contracts", "", *(f"- {formats.plain(line(each))}" for each in found.problems)]))
    return "\n\n".join([*parts, formats.as_markdown(found.past, limit), in_flight_formats.as_markdown(found.ahead)])


def as_junit(found: DeploymentPreview) -> bytes:
    """Return it as JUnit's XML: suites for the contracts, the past and what is in flight, and one for damage where there is any."""
    contracts = _failures("eventlib schemas check", [(each.name, line(each)) for each in found.problems])
    damage = [_failures("eventlib doctor", [(each, each) for each in found.damaged])] if found.damaged else []
    return formats.junit(
        contracts, *damage, formats.junit_suite(found.past), in_flight_formats.junit_suite(found.ahead)
    )


def _failures(command: str, failures: Sequence[tuple[str, str]]) -> Element:
    """Return a suite of what a command finds, by name and message."""
    count = str(len(failures))
    suite = Element("testsuite", {"name": command, "tests": count, "failures": count})
    for name, message in failures:
        case = SubElement(suite, "testcase", {"classname": ".".join(command.split()[:2]), "name": escaped(name)})
        SubElement(case, "failure", {"message": escaped(message)})
    return suite


def line(problem: Problem) -> str:
    """Return a problem with a contract in one line."""
    field = f", field {problem.field}" if problem.field else ""
    return f"{problem.name} against {problem.against}{field}: {problem.what} ({problem.rule}); {problem.remedy}"
