"""Commands that are acts: their options are the act's fields and those that all acts have; what is theirs is the text."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, TypeVar

import typer
from annotated_types import Ge
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from eventlib.cli._common import output
from eventlib.cli._common.names import deciders, services
from eventlib.cli._common.options import JsonOption, LogOptions, argument, flag, option, run_on_log
from eventlib.cli._common.progress import ProgressBar
from eventlib.cli._common.prompts import ReasonOption, YesOption, actor, agree
from eventlib.eventlog import EventLog
from eventlib.operations.act import Act, Desk, Outcome, Reruns, parameter

Progressed = Callable[[int, int], None]
"""Called with how many are done, of how many."""
O = TypeVar("O", bound=Outcome)  # noqa: E741  an outcome
_METAVARS = {"decider": "DECIDER", "key": "KEY", "effect": "REQUEST", "limit": "NAME", "partition": "N"}
_COMPLETED = {"service": services, "decider": deciders}
_DRY_RUN = "Only print what would happen; nothing is written."
_AS_PREVIEWED = "Refuse when the log has moved on since the dry run that printed TOKEN."
_BY = "A name for people, stored on the log behind that of the machine's user or token."
_WAIT = "How long to wait for the running tasks."


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


WaitOption = Annotated[float, option("--wait", "SECONDS", _WAIT, min=0)]
ByOption = Annotated[str | None, option("--by", "NAME", _BY, show_default=False)]
DryRunOption = Annotated[bool, flag("--dry-run", _DRY_RUN)]
AsPreviewedOption = Annotated[str, option("--as-previewed", "TOKEN", _AS_PREVIEWED, show_default=False)]
_SHARED: Mapping[str, tuple[Any, Any]] = {
    "reason": (ReasonOption, ""),
    "by": (ByOption, None),
    "dry_run": (DryRunOption, False),
    "as_previewed": (AsPreviewedOption, ""),
    "as_json": (JsonOption, False),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that all acts have, as they were given; `wait` and `yes` where a command has them."""

    log_options: LogOptions
    reason: str
    by: str | None
    dry_run: bool
    as_previewed: str
    as_json: bool
    wait: float = 1.0
    yes: bool = False

    def carry_out(  # what an act is, and how it is shown
        self,
        act: type[Act[Any, O]],
        fields: Mapping[str, object],
        show: Callable[[O], None],
        question: str = "",
        reruns: Callable[[EventLog, Progressed], Reruns] | None = None,
        *,
        personal: bool = False,
    ) -> None:
        """Do an act or preview it, and print what comes of it, for people by `show`; with a question, after a yes.

        `reruns` makes what carries out reruns; `personal`: the outcome is shown with personal fields. Raises: Exit, with 1
        where the outcome is a failure.
        """
        if self.dry_run and self.as_previewed:
            raise typer.BadParameter("a dry run excludes it", param_hint="--as-previewed")
        shared = {"reason": self.reason, "dry_run": self.dry_run, "as_previewed": self.as_previewed}
        try:
            wanted = act.model_validate({**fields, **shared})
        except ValidationError as error:
            first = error.errors()[0]
            raise typer.BadParameter(first["msg"], param_hint=_flag(str(first["loc"][0]))) from error
        by = "" if self.dry_run else actor(self.by)

        def confirm(seen: O) -> None:
            if not self.as_json:
                show(seen)
            agree(question, yes=self.yes)

        is_asked = question and not (self.yes and self.as_json)
        with ProgressBar(act.__name__.lower()) as bar:

            async def performed(log: EventLog) -> O:
                runner = None if reruns is None else reruns(log, bar.show)
                return await wanted.perform(Desk(log, by, self.wait, bar.show, runner), confirm if is_asked else None)

            done = run_on_log(self._log_options(act, personal=personal), performed)
        for note in done.notes:
            output.warn(output.printable(note))
        if self.as_json:
            output.print_json(done.lines(personal=personal))
        else:
            show(done)
            if done.token and done.changes:
                print(f"Nothing was written. To act only if this still holds: --as-previewed {done.token}")
        raise typer.Exit(1 if done.fails else 0)

    def _log_options(self, act: type[Act[Any, Any]], *, personal: bool) -> LogOptions:
        if not personal and (act.decides or self.dry_run or self.as_previewed):
            return self.log_options.deciding()
        return replace(self.log_options, personal=personal)


def asking(
    wait_s: float | None = None, *, may_ask: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command, as its argument `asked`, the options that all acts have.

    `wait_s` is how long it waits by default, if it can wait; `may_ask`: it has --yes.
    """
    shared = {} if wait_s is None else {"wait": (WaitOption, wait_s)}
    shared |= {"yes": (YesOption, False)} if may_ask else {}
    shared |= _SHARED

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(log_options: LogOptions, **given: Any) -> None:
            asked = Asked(log_options, **{name: given.pop(name) for name in shared})
            function(asked=asked, **given)

        own = inspect.signature(function, eval_str=True).parameters.values()
        every = [parameter("log_options", LogOptions)]
        every += [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own if each.name != "asked"]
        every += [parameter(name, kind, default) for name, (kind, default) in shared.items()]
        command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]  # Typer reads it
        return command

    return decorated


def act_command(
    act: type[Act[Any, O]], wait_s: float | None = None, question: str = ""
) -> Callable[[Callable[[O], None]], Callable[..., None]]:
    """Return a decorator that makes an act's command of the function which prints its outcome for people.

    The command's options are the act's fields. A question, with the fields' values in it, is asked before the act is done.
    """

    def decorated(show: Callable[[O], None]) -> Callable[..., None]:
        def command(asked: Asked, **fields: object) -> None:
            asked.carry_out(act, fields, show, question.format(**fields))

        command.__doc__, command.__name__ = show.__doc__, show.__name__
        own = [_own(name, field, f"{{{name}" in act.path) for name, field in act.own_fields().items()]
        command.__signature__ = inspect.Signature([parameter("asked", Asked), *own])  # type: ignore[attr-defined]  # as below
        return asking(wait_s, may_ask=bool(question))(command)

    return decorated


def _own(name: str, field: FieldInfo, is_address: bool) -> Parameter:
    """Return the argument or option of an act's field."""
    kind, about = field.annotation, field.description or ""
    if is_address:
        return parameter(name, Annotated[kind, argument(name.upper(), about, autocompletion=_COMPLETED.get(name))])
    least = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    metavar = "" if kind is bool else _METAVARS.get(name, "TEXT" if least is None else "N")
    made = option(_flag(name), metavar, about, show_default=False, min=least, autocompletion=_COMPLETED.get(name))
    return parameter(name, Annotated[kind, made], field.default)
