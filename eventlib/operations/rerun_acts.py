"""The acts on reruns: begin one, have the service take over its states, delete it. A job does what takes long."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.as_json import difference_json
from eventlib.operations.dry_run import token_of
from eventlib.operations.reprocessing.jobs import RerunJob
from eventlib.operations.reprocessing.listing import drop, droppable, existing_metadata
from eventlib.operations.reprocessing.metadata import RerunSpec

Time = Annotated[str | None, Field(max_length=40)]


@dataclass(frozen=True)
class RerunOutcome(Outcome):
    """How far a job is, and what came of it, or would."""

    log: EventLog
    job: RerunJob

    @property
    def token(self) -> str:  # type: ignore[override]  # it is there once the job is done
        """What names the preview of a cutover."""
        return self.job.token

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        job = self.job
        found: dict[str, object] = {
            "service": job.service,
            "rerun": job.name,
            "takes_over": job.cutover and not job.dry_run,
            "status": job.status,
            "done": job.done,
            "of": job.of,
        }
        if job.error:
            found["error"] = job.error
        if job.switched is not None:
            found["would_switch" if job.dry_run else "switched"] = asdict(job.switched)
        found |= self.previewed
        differences = [*self._differences(personal=personal)]
        return found | ({"differences": differences} if differences else {})

    def lines(self, *, personal: bool = False) -> list[dict[str, object]]:
        """Return what the cutover came to as one line; without one, what differs."""
        job = self.job
        if job.switched is None:
            return [*self._differences(personal=personal)]
        names = {"service": job.service, "rerun": job.name}
        line = {**names, **asdict(job.switched), "why": job.spec.why, "done": not job.dry_run}
        return [line | self.previewed]

    def _differences(self, *, personal: bool) -> Iterator[dict[str, object]]:
        found = self.job.difference_for(self.log.choreography, sees_personal=personal)
        if found is not None:
            yield from difference_json(self.job.service, self.job.name, found)


class Rerun(Act[RerunJob, RerunOutcome]):
    """Reprocess a service's history under a name, or go on with that."""

    path: ClassVar[str] = "/services/{service}/reruns/{name}"
    needs_reason: ClassVar[bool] = False
    service: str
    name: str
    since: Annotated[Time, Field(description="Decide again only from a time (UTC) on.")] = None
    until: Annotated[Time, Field(description="Only the service's inputs up to a time (UTC).")] = None

    async def select(self, desk: Desk) -> RerunJob:
        """Return the job. Raises: ContractError for what is no time."""
        why = desk.signed(self.reason).removesuffix(": ")
        return RerunJob(self.service, self.name, RerunSpec.of(why, self.since, self.until))

    async def preview(self, desk: Desk, about: RerunJob) -> RerunOutcome:
        """Refuse it. Raises: ContractError."""
        del desk, about
        raise ContractError("a rerun changes nothing of its service: begin it, and look at what differs")

    async def apply(self, desk: Desk, about: RerunJob) -> RerunOutcome:
        """Begin it. Raises: as `Reruns.begin`."""
        return RerunOutcome(desk.log, await desk.runner.begin(about))


class Switch(Act[RerunJob, RerunOutcome]):
    """Make a rerun's states the service's; a dry run shows what would be done."""

    path: ClassVar[str] = "/services/{service}/reruns/{name}/switch"
    service: str
    name: str
    run_effects: Annotated[bool, Field(description="Whether effects run that only the rerun has requested.")] = False

    async def select(self, desk: Desk) -> RerunJob:
        """Return the job. Raises: WiringError; UnknownRerun."""
        note = await existing_metadata(desk.log, desk.log.choreography.service(self.service), self.name)
        spec = RerunSpec("" if self.dry_run else desk.signed(self.reason), note.since_ms, note.until_ms)
        return switching(RerunJob(self.service, self.name, spec), self, runs_effects=self.run_effects)

    async def perform(self, desk: Desk, confirm: Callable[[RerunOutcome], None] | None = None) -> RerunOutcome:
        """Begin the job, which previews the cutover, or refuses what its preview has not shown."""
        del confirm  # who carries the job out here looks at what differs before
        return RerunOutcome(desk.log, await desk.runner.begin(await self.select(desk)))


def switching(job: RerunJob, act: Act[Any, Any], *, runs_effects: bool) -> RerunJob:
    """Return a job that ends with the cutover that an act asks for."""
    return replace(job, cutover=True, runs_effects=runs_effects, dry_run=act.dry_run, as_previewed=act.as_previewed)


@dataclass(frozen=True)
class DropOutcome(Outcome):
    """The topics that are deleted with a rerun, or would be, each with how many offsets it has used."""

    service: str
    name: str
    topics: Mapping[str, int]
    token: str = ""

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        found = {"service": self.service, "rerun": self.name, "dropped": not self.token, "topics": self.topics}
        return found | self.previewed


class Drop(Act[DropOutcome, DropOutcome]):
    """Delete a rerun, with all its outputs; a dry run tells what that would delete."""

    path: ClassVar[str] = "/services/{service}/reruns/{name}/drop"
    status: ClassVar[int] = 200
    needs_reason: ClassVar[bool] = False
    may_be_bare: ClassVar[bool] = True
    service: str
    name: str

    async def select(self, desk: Desk) -> DropOutcome:
        """Return what it would delete. Raises: as `droppable`."""
        topics = await droppable(desk.log, desk.log.choreography.service(self.service), self.name)
        return DropOutcome(self.service, self.name, topics, token_of("drop", self.name, *topics.items()))

    async def apply(self, desk: Desk, about: DropOutcome) -> DropOutcome:
        """Delete it. Raises: ContractError while it is carried out, or in use."""
        desk.runner.forget(self.service, self.name)
        await drop(desk.log, desk.log.choreography.service(self.service), self.name)
        return replace(about, token="")
