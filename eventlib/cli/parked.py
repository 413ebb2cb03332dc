"""`eventlib parked`: lists what is parked and what waits behind it; retries, edits and discards."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.names import OfServicesOption, parked_keys
from eventlib.cli._common.options import JsonOption, LogOptions, PersonalLog, argument, option, run_on_log
from eventlib.cli._common.typer_ext import group
from eventlib.cli.parked_acts import CauseOption, DecidersOption, ReasonMatches, discard, edit, retry
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import group_json, parking_json, waiting_json
from eventlib.operations.parked_acts import parked_under
from eventlib.operations.parked_groups import ParkedGroup, fingerprint_of, grouped
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, parkings, waiting_inputs
from eventlib.search.parked import parked_where

By = Literal["cause", "key"]
_NAMED = 3
"""How many keys of a cause are named."""

parked = group("List inputs that could not be handled; retry, edit or discard them.")


@parked.command("list")
def list_(  # noqa: PLR0913, PLR0917  one argument for each option
    log_options: LogOptions,
    service: OfServicesOption = None,
    decider: DecidersOption = None,
    reason_matches: ReasonMatches = None,
    where: Annotated[
        str,
        option(
            "--where -w",
            "QUERY",
            "Only those for which this holds: a condition on service, decider, key, effect, reason, code_version, "
            "waiting, since and age.",
        ),
    ] = "",
    cause: CauseOption = None,
    by: Annotated[
        By | None,
        option("--by", "cause|key", "A group for each cause, or a line for each key. [dim]Default: see above[/dim]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List what is parked by its causes: how much, since when, why, what to do.

    The same failure at the same place of the code is one cause, whatever the
    numbers and names in its text. --by key, --cause and --json list each key
    and effect. A parked key or effect waits for a person; other keys continue.

    [dim]Examples:[/dim]
      eventlib parked list
      eventlib parked list --by key --service payment --reason-matches KeyError
      eventlib parked list --where "age > 2h and reason like '%KeyError%'"
      eventlib parked list --json | jq -r .reason | sort | uniq -c
    """

    async def listed(log: EventLog) -> list[Parking]:
        wanted = ParkedQuery.of(log, service or [], decider or [], reason_matches)
        return await parkings(log, wanted=replace(wanted, condition=parked_where(where)) if where.strip() else wanted)

    found = run_on_log(log_options, listed)
    found = found if cause is None else [each for each in found if fingerprint_of(each) == cause]
    by_cause = by == "cause" or not (by or cause or as_json)
    if as_json:
        output.print_json(map(group_json, grouped(found)) if by_cause else map(parking_json, found))
        return
    if not found:
        output.say("Nothing is parked." if cause is None else "Nothing is parked for this cause.")
        return
    if by_cause:
        for group_ in grouped(found):
            _print_group(group_)
    else:
        _print_keys(found)
    output.say(_counts(found), "dim")


def _print_group(found: ParkedGroup) -> None:
    shown = output.Fields()
    output.say(Text.assemble((_counts(found.members), "bold"), f"  {found.service}, {found.about}"))
    shown.add_row("why", Text(output.printable(found.reasons[0]), style="red"))
    if len(found.reasons) > 1:
        shown.add_row("", f"and {output.counted(len(found.reasons) - 1, 'more text')} of this cause")
    span = " to ".join(dict.fromkeys([output.readable(found.first), output.readable(found.last)]))
    code = ", ".join(each[:8] for each in found.code_versions)
    shown.add_row("since", f"{span} (UTC)" + (f", code {code}" if code else ""))
    keys = [each.key for each in found.members[:_NAMED]] + ["…"] * (len(found.members) > _NAMED)
    shown.add_row("keys", ", ".join(keys))
    shown.add_row("list", f"eventlib parked list --cause {found.fingerprint}")
    shown.add_row("then", f"{found.remedy}:")
    output.terminal().print(shown)
    output.say(f"  {found.command}")
    output.say()


def _counts(found: Sequence[Parking]) -> str:
    keys = [each for each in found if each.effect is None]
    inputs = output.counted(sum(each.waiting for each in keys), "input")
    counts = [f"{output.counted(len(keys), 'key')} with {inputs}"] if keys else []
    effects = len(found) - len(keys)
    return " and ".join([*counts, *([output.counted(effects, "effect")] if effects else [])])


def _print_keys(found: Sequence[Parking]) -> None:
    rows = list[output.Row]()
    for each in found:
        waiting, reason = (
            (each.waiting, each.reason) if each.effect is None else ("effect", f"{each.effect}: {each.reason}")
        )
        since, code = output.readable(each.since), each.code_version[:8]
        rows.append((each.service, each.decider, each.key, since, waiting, code, reason))
    columns = ["service", "decider", "key", "since (UTC)", "waiting", "code", "reason"]
    output.print_table(columns, rows, whole=["key", "since (UTC)"], spare=["code", "service"])


@parked.command()
def show(
    log_options: PersonalLog,
    key: Annotated[str, argument("KEY", "A key from the list, or an effect's id.", autocompletion=parked_keys)],
    as_json: JsonOption = False,
) -> None:
    """Show the inputs that wait behind a parked key, in order, and where the code raised.

    Each input is shown with its origin and its data; data that cannot be decoded, as hexadecimal bytes.

    [dim]Examples:[/dim]
      eventlib parked show 536365
      eventlib parked show 536365 --json | jq .data
    """

    async def waiting(log: EventLog) -> list[tuple[Parking, list[WaitingInput]]]:
        found = parked_under(await parkings(log), key)
        return [(parking, await waiting_inputs(log, parking)) for parking in found]

    for number, (parking, inputs) in enumerate(run_on_log(log_options, waiting)):
        lines = [waiting_json(parking, each) for each in inputs]
        if as_json:
            output.print_json(lines)
            continue
        if number:
            print()
        _print_inputs(parking, lines)


def _print_inputs(parking: Parking, lines: list[dict[str, object]]) -> None:
    what = f"effect {parking.effect}" if parking.effect else f"{len(lines)} waiting"
    output.say(
        Text.assemble((f"{parking.decider} {output.printable(parking.key)}", "bold"), f"  {parking.service}, {what}")
    )
    if parking.traceback:
        code = f" in code {parking.code_version}" if parking.code_version else ""
        output.say(f"since {output.readable(parking.since)}{code}", "dim")
        output.terminal().print(Text(parking.traceback.rstrip(), style="red"))
    for line in lines:
        shown = output.Fields()
        location = f"{line['topic']}/{line['partition']}@{line['offset']}" if line["topic"] else "a deadline"
        content = line["bytes"] if "bytes" in line else output.json_line(line["data"]).decode()
        rows = {"from": f"{location}  {line['recorded_at']}", "id": line["id"], "reason": line["reason"]}
        if line["edited"]:
            rows["edited by"] = line["edited"]
        if line.get("error") not in (None, line["reason"]):
            rows["error"] = line["error"]
        rows["bytes" if "bytes" in line else "data"] = content
        output.say()
        output.say(output.printable(str(line["type"] or "(no type)")), "bold")
        for name, value in rows.items():
            shown.add_row(name, str(value))
        output.terminal().print(shown)


parked.command()(retry)
parked.command()(edit)
parked.command()(discard)
