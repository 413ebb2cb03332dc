"""An operator's act: declared once, and offered by the command line, the admin API and the console, which add its looks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.ground.pydantic_errors import sentence_of
from eventlib.identity.principal import Role
from eventlib.operations.dry_run import refuse_moved

if TYPE_CHECKING:
    from eventlib.operations.reprocessing.jobs import RerunJob


class NotThere(ContractError):
    """What an act is about is not there, or not any more."""


class Ambiguous(ContractError):
    """What an act names is several things."""


def _no_progress(_done: int, _of: int) -> None:
    return


class Reruns(Protocol):
    """Carries out jobs that reprocess a service's history."""

    async def begin(self, job: "RerunJob") -> "RerunJob":
        """Begin a job, and return it, or the one that the same rerun has."""
        ...

    def forget(self, service: str, name: str) -> None:
        """Forget what was done for a rerun that is deleted."""
        ...


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an act is done: on which log, by whom, and how long to wait (s; None: not at all) for what comes of it.

    `reruns` carries out what takes long.
    """

    log: EventLog
    by: str
    wait_s: float | None = None
    progress: Callable[[int, int], None] = _no_progress
    reruns: Reruns | None = None

    @property
    def runner(self) -> Reruns:
        """What carries out jobs. Raises: ContractError where nothing does."""
        if self.reruns is None:
            raise ContractError("reruns are not carried out here")
        return self.reruns

    def signed(self, reason: str) -> str:
        """Return a reason as journals record it: with who acts."""
        return f"{self.by}: {reason.strip()}"


class Outcome:
    """The result of an act, or of its preview, which has a token: an act that is given it refuses what has changed since."""

    token: str = ""

    @property
    def changes(self) -> bool:
        """Whether it has done anything, or would."""
        return True

    @property
    def fails(self) -> bool:
        """Whether what it is about has failed, or would: a command then ends with exit code 1."""
        return False

    @property
    def notes(self) -> Sequence[str]:
        """Return what else has to be known, as sentences."""
        return ()

    @property
    def previewed(self) -> dict[str, object]:
        """The token as JSON has it; nothing of an act that was done."""
        return {"as_previewed": self.token} if self.token else {}

    def json(self, *, personal: bool = False) -> dict[str, object]:
        """Return it as every front end answers with it; personal fields are masked unless they may be seen."""
        raise NotImplementedError

    def lines(self, *, personal: bool = False) -> list[dict[str, object]]:
        """Return it as lines of JSON: one for each thing that the act is about."""
        return [self.json(personal=personal)]


S = TypeVar("S")
O = TypeVar("O", bound=Outcome)  # noqa: E741  an outcome


class Act(BaseModel, Generic[S, O]):
    """An act: its fields are what an operator gives, and its methods find, preview and do it.

    `path` is the admin API's route; the fields that it names, or `query` does, are no part of a body. `role` may do it.
    """

    model_config = ConfigDict(extra="forbid")
    path: ClassVar[str]
    query: ClassVar[tuple[str, ...]] = ()
    status: ClassVar[int] = 202
    role: ClassVar[Role] = Role.OPERATOR
    needs_reason: ClassVar[bool] = True
    may_be_bare: ClassVar[bool] = False
    """Whether a request for it needs no body."""
    decides: ClassVar[bool] = False
    """Whether it has handlers decide in the process that does it, which reads personal fields then where it may."""

    dry_run: Annotated[bool, Field(description="Only tell what would happen; nothing is written.")] = False
    as_previewed: Annotated[
        str, Field(max_length=100, description="Refuse when the log has moved on since the dry run with this token.")
    ] = ""
    reason: Annotated[
        str, Field(max_length=2_000, validate_default=True, description="Why; stored on the log, with who acts.")
    ] = ""

    @field_validator("reason")
    @classmethod
    def _given(cls, reason: str, info: ValidationInfo) -> str:
        if cls.needs_reason and not info.data.get("dry_run") and not reason.strip():
            raise PydanticCustomError("reason", "give a reason: it is stored on the log")
        return reason.strip()

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> Self:
        """Return the act with these fields. Raises: ContractError, naming the field, for one that does not fit."""
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise ContractError(sentence_of(error)) from error

    @classmethod
    def own_fields(cls) -> Mapping[str, FieldInfo]:
        """Return the fields that it has beyond those of every act."""
        return {name: field for name, field in cls.model_fields.items() if name not in Act.model_fields}

    async def select(self, desk: Desk) -> S:
        """Return what it is about. Raises: WiringError and ContractError for what there is not."""
        raise NotImplementedError

    async def preview(self, desk: Desk, about: S) -> O:
        """Return what it would come to: by default, what it is about says that. Guarantee: writes nothing."""
        del desk
        return cast("O", about)

    async def apply(self, desk: Desk, about: S) -> O:
        """Do it, and return what came of it."""
        raise NotImplementedError

    async def perform(self, desk: Desk, confirm: Callable[[O], None] | None = None) -> O:
        """Do it, unless it is a dry run; `confirm` is shown the preview before, and raises where it is not to be done.

        What would change nothing is not done either, where it would be confirmed.

        Raises: ContractError when it would not do what the preview with the token `as_previewed` has shown.
        """
        return await self.carry_on(desk, await self.select(desk), confirm)

    async def carry_on(self, desk: Desk, about: S, confirm: Callable[[O], None] | None = None) -> O:
        """Do it with what was selected, as `perform` does."""
        if self.dry_run or self.as_previewed or confirm is not None:
            seen = await self.preview(desk, about)
            if self.dry_run:
                return seen
            refuse_moved(self.as_previewed, seen.token)
            if confirm is not None:
                if not seen.changes:
                    return seen
                confirm(seen)
        return await self.apply(desk, about)


def parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    """Return a parameter of a front end's function, which is called by names."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
