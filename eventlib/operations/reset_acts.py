"""The acts that move a service's offsets, and accept what it has lost of its inputs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from eventlib.errors import ContractError
from eventlib.operations.act import Act, Desk, Outcome
from eventlib.operations.dry_run import token_of
from eventlib.operations.reprocessing.jobs import way_back
from eventlib.operations.rerun_acts import RerunOutcome, switching
from eventlib.operations.seek import SeekPlan, accept_losses, move, reset_plans, reset_target
from eventlib.queries.task_clock import positions_of


@dataclass(frozen=True)
class SeekOutcome(Outcome):
    """The seeks forwards of a service's tasks that were done, or would be."""

    service: str
    plans: Sequence[SeekPlan]
    token: str = ""
    why: str = ""

    @property
    def changes(self) -> bool:
        """Whether there is anything to skip."""
        return bool(self.plans)

    @property
    def inputs(self) -> int:
        """How many inputs are skipped."""
        return sum(each.inputs for each in self.plans)

    @property
    def keys(self) -> Counter[str]:
        """How many inputs of each key are skipped."""
        return sum((Counter(each.keys) for each in self.plans), Counter[str]())

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        moves = [asdict(each) for each in self.plans]
        found: dict[str, object] = {"service": self.service, "done": not self.token, "moves": moves}
        return found | self.previewed

    def lines(self, *, personal: bool = False) -> list[dict[str, object]]:
        """Return a line for each seek."""
        del personal
        shared = {"done": not self.token, "why": self.why} | self.previewed
        return [{"service": self.service, **asdict(each), **shared} for each in self.plans]


class Reset(Act[SeekOutcome | None, SeekOutcome | RerunOutcome]):
    """Move a service's offsets forwards; or backwards, by a rerun whose states it takes over."""

    path: ClassVar[str] = "/services/{service}/reset"
    decides: ClassVar[bool] = True
    service: str
    to: Annotated[str, Field(min_length=1, max_length=40, description="earliest, latest, or a time (UTC).")]
    topics: list[str] = Field(default_factory=list, description="Forwards: move only in these topics.")
    run_effects: Annotated[bool, Field(description="Whether effects run that only the rerun has requested.")] = False

    takes_over: Annotated[
        bool, Field(description="Backwards: whether the service takes the rerun's states over at once.")
    ] = True

    async def select(self, desk: Desk) -> SeekOutcome | None:
        """Return what would be skipped forwards; None where it goes back. Raises: as `reset_plans`."""
        service = desk.log.choreography.service(self.service)
        plans = await reset_plans(desk.log, service, reset_target(self.to), self.topics)
        return None if plans is None else SeekOutcome(self.service, plans, token_of("seek", *plans))

    async def apply(self, desk: Desk, about: SeekOutcome | None) -> SeekOutcome | RerunOutcome:
        """Skip it. Raises: as `move`."""
        service, why = desk.log.choreography.service(self.service), desk.signed(self.reason)
        plans = [] if about is None else about.plans
        return SeekOutcome(self.service, await move(desk.log, service, plans, why), why=why)

    async def perform(
        self, desk: Desk, confirm: Callable[[SeekOutcome | RerunOutcome], None] | None = None
    ) -> SeekOutcome | RerunOutcome:
        """See `Act`; on the way back, begin the job, which previews the cutover, or refuses what that has not shown."""
        about = await self.select(desk)
        if about is not None:
            return await self.carry_on(desk, about, confirm)
        why = "" if self.dry_run else desk.signed(self.reason)
        job = await way_back(desk.log, desk.log.choreography.service(self.service), reset_target(self.to), why)
        if self.takes_over:
            job = switching(job, self, runs_effects=self.run_effects)
        return RerunOutcome(desk.log, await desk.runner.begin(job))


@dataclass(frozen=True)
class LossOutcome(Outcome):
    """What a service has lost of its inputs, which is accepted, or would be."""

    service: str
    lost: Sequence[str]
    token: str = ""

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """See `Outcome`."""
        del personal
        found: dict[str, object] = {"service": self.service, "lost": self.lost, "accepted": not self.token}
        return found | self.previewed

    def lines(self, *, personal: bool = False) -> list[dict[str, object]]:
        """Return a line for each loss."""
        return [self.json(personal=personal) | {"lost": each} for each in self.lost]


class AcceptLoss(Act[LossOutcome, LossOutcome]):
    """Accept that inputs of a service were gone before it read them."""

    path: ClassVar[str] = "/services/{service}/accept-loss"
    service: str

    async def select(self, desk: Desk) -> LossOutcome:
        """Return what it has lost. Raises: WiringError; ContractError when that is nothing."""
        service = desk.log.choreography.service(self.service)
        found = [await positions_of(desk.log, service, partition) for partition in range(service.partitions)]
        lost = [what for positions in found for what in positions.lost.values()]
        if not lost:
            raise ContractError(f"{self.service} has lost no inputs that are not accepted yet: nothing was changed")
        return LossOutcome(self.service, lost, token_of("loss", *lost))

    async def apply(self, desk: Desk, about: LossOutcome) -> LossOutcome:
        """Accept what it has lost by now. Raises: as `accept_losses`."""
        service = desk.log.choreography.service(self.service)
        return LossOutcome(about.service, await accept_losses(desk.log, service, desk.signed(self.reason)))
