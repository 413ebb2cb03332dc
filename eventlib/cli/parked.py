"""`eventlib parked`: lists what is parked and what waits behind it; retries, edits and discards."""

from dataclasses import replace
from typing import Annotated

from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import (
    JsonOption,
    LogOptions,
    OfServicesOption,
    PersonalLog,
    argument,
    option,
    run_on_log,
)
from eventlib.cli._common.typer_ext import group
from eventlib.cli.parked_acts import DecidersOption, ReasonMatches, discard, edit, retry
from eventlib.eventlog import EventLog
from eventlib.operations.as_json import parking_json, waiting_json
from eventlib.operations.parked_acts import parked_under
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, parkings, waiting_inputs
from eventlib.search.parked import parked_where

parked = group("List inputs that could not be handled; retry, edit or discard them.")


@parked.command("list")
def list_(
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
    as_json: JsonOption = False,
) -> None:
    """List what is parked: since when, how many inputs wait, the code version, and why.

    A parked key or effect waits for a person; other keys continue.

    [dim]Examples:[/dim]
      eventlib parked list
      eventlib parked list --service payment --reason-matches KeyError
      eventlib parked list --where "age > 2h and reason like '%KeyError%'"
      eventlib parked list --json | jq -r .reason | sort | uniq -c
    """

    async def listed(log: EventLog) -> list[Parking]:
        wanted = ParkedQuery.of(log, service or [], decider or [], reason_matches)
        return await parkings(log, wanted=replace(wanted, condition=parked_where(where)) if where.strip() else wanted)

    found = run_on_log(log_options, listed)
    if as_json:
        output.print_json(parking_json(parking) for parking in found)
        return
    if not found:
        output.say("Nothing is parked.")
        return
    rows = list[output.Row]()
    for each in found:
        waiting, reason = (
            (each.waiting, each.reason) if each.effect is None else ("effect", f"{each.effect}: {each.reason}")
        )
        since, code = output.readable(each.since), each.code_version[:8]
        rows.append((each.service, each.decider, each.key, since, waiting, code, reason))
    columns = ["service", "decider", "key", "since (UTC)", "waiting", "code", "reason"]
    output.print_table(columns, rows, whole=["key", "since (UTC)"], spare=["code"])
    keys = [each for each in found if each.effect is None]
    waits = output.counted(sum(each.waiting for each in keys), "input")
    effects = len(found) - len(keys)
    also = f", and {output.counted(effects, 'effect')}" if effects else ""
    output.say(f"{output.counted(len(keys), 'key')} with {waits}{also}", "dim")


@parked.command()
def show(
    log_options: PersonalLog,
    key: Annotated[str, argument("KEY", "A key from the list, or an effect's id.")],
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
        grid = output.grid()
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
            grid.add_row(Text(name, style="dim"), Text(output.printable(str(value))))
        output.terminal().print(grid)


parked.command()(retry)
parked.command()(edit)
parked.command()(discard)
