"""`eventlib parked list` and `show`: what could not be handled, and what waits."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.table import Table
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import LogOptions
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.log.base import key_text
from eventlib.queries.parked import ParkedQuery, Parking, WaitingInput, parkings, waiting_inputs


@dataclass(frozen=True, slots=True)
class Which:
    """Which of what is parked somebody means, as it was typed."""

    services: Sequence[str] = ()
    deciders: Sequence[str] = ()
    reason: str | None = None

    def of(self, log: EventLog) -> ParkedQuery:
        """Return what is meant on a log. Raises: WiringError for an unknown name; ContractError."""
        return ParkedQuery.of(log, self.services, self.deciders, self.reason)


def print_list(place: LogOptions, which: Which, *, as_json: bool) -> None:
    """Print a line for each parked key and effect that is meant."""

    async def listed(log: EventLog) -> list[Parking]:
        return await parkings(log, wanted=which.of(log))

    found = look(place, listed)
    if as_json:
        output.print_json(parking_json(parking) for parking in found)
        return
    console = output.terminal()
    if not found:
        console.print("Nothing is parked.")
        return
    columns = ["service", "decider", "key", "since (UTC)", "waiting", "code", "reason"]
    shown = output.table(*columns, right=["waiting"], whole=["since (UTC)", "code"])
    for each in found:
        waiting = str(each.waiting) if each.effect is None else "effect"
        reason = each.reason if each.effect is None else f"{each.effect}: {each.reason}"
        since, code = output.readable(each.since), each.code_version[:8]
        cells = [each.service, each.decider, output.printable(each.key), since, waiting, code, output.printable(reason)]
        shown.add_row(*map(Text, cells))
    console.print(shown)
    keys = [each for each in found if each.effect is None]
    waits = output.counted(sum(each.waiting for each in keys), "input")
    effects = len(found) - len(keys)
    also = f", and {output.counted(effects, 'effect')}" if effects else ""
    console.print(Text(f"{output.counted(len(keys), 'key')} with {waits}{also}", style="dim"))


def print_waiting(place: LogOptions, key: str, *, as_json: bool) -> None:
    """Print the inputs that wait behind a parked key."""

    async def waiting(log: EventLog) -> list[tuple[Parking, list[WaitingInput]]]:
        found = of_key(await parkings(log), key)
        return [(parking, await waiting_inputs(log, parking)) for parking in found]

    for number, (parking, inputs) in enumerate(look(place, waiting)):
        lines = [waiting_json(parking, each) for each in inputs]
        if as_json:
            output.print_json(lines)
            continue
        if number:
            print()
        _print_inputs(parking, lines)


def of_key(found: list[Parking], key: str) -> list[Parking]:
    """Return what is parked under a key, or an id. Raises: ContractError when nothing is."""
    kept = [parking for parking in found if key in {parking.key, parking.id}]
    if not kept:
        raise ContractError(f"nothing is parked under {key!r}: `eventlib parked list` shows what is")
    return kept


def parking_json(parking: Parking) -> dict[str, object]:
    """Return what is parked as JSON has it."""
    return {**asdict(parking), "since": output.iso(parking.since)}


def waiting_json(parking: Parking, waiting: WaitingInput) -> dict[str, object]:
    """Return an input that waits as JSON has it: where it came from, and what is in it."""
    record, reading = waiting.record, waiting.reading
    line: dict[str, object] = {
        "service": parking.service,
        "decider": parking.decider,
        "key": key_text(record),
        "topic": record.topic or None,
        "partition": record.partition,
        "offset": record.offset if record.topic else None,
        "recorded_at": output.iso_ms(record.timestamp_ms),
        "type": record.type,
        "id": record.event_id,
        "reason": waiting.reason,
        "edited": waiting.edited_by or None,
        "data": reading.value,
    }
    if reading.error is not None:
        line |= {"error": reading.error, "bytes": (record.value or b"").hex()}
    return line


def _print_inputs(parking: Parking, lines: list[dict[str, object]]) -> None:
    console = output.terminal()
    what = f"effect {parking.effect}" if parking.effect else f"{len(lines)} waiting"
    console.print(
        Text.assemble((f"{parking.decider} {output.printable(parking.key)}", "bold"), f"  {parking.service}, {what}")
    )
    if parking.traceback:
        code = f" in code {parking.code_version}" if parking.code_version else ""
        console.print(Text(f"since {output.readable(parking.since)}{code}", style="dim"))
        console.print(Text(parking.traceback.rstrip(), style="red"))
    for line in lines:
        grid = Table.grid(padding=(0, 2))
        place = f"{line['topic']}/{line['partition']}@{line['offset']}" if line["topic"] else "a deadline"
        content = line["bytes"] if "bytes" in line else output.json_line(line["data"]).decode()
        rows = {"from": f"{place}  {line['recorded_at']}", "id": line["id"], "reason": line["reason"]}
        if line["edited"]:
            rows["edited by"] = line["edited"]
        if line.get("error") not in (None, line["reason"]):
            rows["error"] = line["error"]
        rows["bytes" if "bytes" in line else "data"] = content
        console.print()
        console.print(Text(output.printable(str(line["type"] or "(no type)")), style="bold"))
        for name, value in rows.items():
            grid.add_row(Text(name, style="dim"), Text(output.printable(str(value)), overflow="fold"))
        console.print(grid)
