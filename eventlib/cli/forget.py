"""`eventlib forget`: erases a person by destroying the key of their personal data."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.act_command import AsPreviewedOption, ByOption, DryRunOption
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, run_on_log
from eventlib.cli._common.prompts import ReasonOption, actor
from eventlib.operations.erasure import ForgetPreview, preview_forget, refuse_changed
from eventlib.operations.erasure import forget as forget_subject
from eventlib.personal.opening import found_store, open_store, personal_options
from eventlib.personal.receipt import Receipt

if TYPE_CHECKING:
    from eventlib.eventlog import EventLog


def forget(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The person's id, as the personal fields name it.")],
    reason: ReasonOption = "",
    uncounted: Annotated[
        bool, typer.Option("--uncounted", metavar="", help="Do not count the records that the receipt covers.")
    ] = False,
    by: ByOption = None,
    dry_run: DryRunOption = False,
    as_previewed: AsPreviewedOption = "",
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Erase a person: destroy the key of their personal data, and print the receipt.

    This cannot be undone. Services may run: each stops using the key within a
    second. The personal fields then read as [erased] everywhere, and what is
    written under this id later is erased, too. The erasure and its receipt are
    events on the topic _erasures. Given again, it completes an erasure that was
    interrupted, or prints the receipt of the first time.

    [dim]Examples:[/dim]
      eventlib forget 12583 --dry-run
      eventlib forget 12583 --reason "request of 2026-01-31"
      eventlib forget 12583 --reason "request of 2026-01-31" --json | jq .records
    """
    log_options, count = LogOptions.of(context, app, log), not uncounted
    if dry_run:
        print_forget_preview(log_options, subject, counted=count, as_json=as_json)
        return
    if not reason.strip():
        raise typer.BadParameter("give a reason: it is stored on the log", param_hint="--reason")
    who = actor(by)

    async def erased(log: "EventLog") -> Receipt:
        with found_store(log_options.url) as store:
            await refuse_changed(log.port, store, subject, as_previewed, count=count)
        with open_store(log_options.url, personal_options(), create=True) as made:
            return await forget_subject(log.port, made, subject, reason, who, count=count)

    receipt = run_on_log(log_options, erased)
    if as_json:
        output.print_json([asdict(receipt)])
    else:
        _print(receipt)


def print_forget_preview(log_options: LogOptions, subject: str, *, counted: bool, as_json: bool) -> None:
    """Print what erasing a subject would cover."""

    async def previewed(log: "EventLog") -> ForgetPreview:
        with found_store(log_options.url) as store:
            return await preview_forget(log.port, store, subject, count=counted)

    found = run_on_log(log_options, previewed)
    if as_json:
        output.print_json([asdict(found) | {"as_previewed": found.token}])
        return
    console = output.terminal()
    key = "its key would be destroyed" if found.has_key else "it has no key, and gets none"
    told = f"is erased since {found.erased_at} already" if found.erased_at else f"would be erased: {key}"
    console.print(Text(output.printable(f"{found.subject} {told}."), style="bold"))
    cannot = "can" if found.erased_at else "could then"
    for topic, records in (found.records or {}).items():
        console.print(f"  {output.counted(records, 'record')} of {topic} {cannot} no longer be decrypted")
    console.print("Nothing was written, and no key destroyed.")
    print(f"Only while that is so: the same command with --as-previewed {found.token} instead of --dry-run.")


def _print(receipt: Receipt) -> None:
    console = output.terminal()
    key = "its key is destroyed" if receipt.had_key else "it had no key, and gets none"
    console.print(
        Text(output.printable(f"{receipt.subject} is erased since {receipt.erased_at}: {key}."), style="bold")
    )
    console.print(output.printable(f"erasure {receipt.erasure}, by {receipt.by}: {receipt.reason}"), soft_wrap=True)
    for topic, records in (receipt.records or {}).items():
        console.print(f"  {output.counted(records, 'record')} of {topic} can no longer be decrypted")
    console.print(Text("not covered: " + "; ".join(receipt.not_covered), style="dim"), soft_wrap=True)
