"""`eventlib parked`: what could not be handled, and again."""

from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from eventlib.cli import output
from eventlib.cli.opened import look
from eventlib.cli.options import Place
from eventlib.cli.person import user
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog
from eventlib.inspection.parked import Parking, WaitingInput, parkings, request_retry, waiting_inputs
from eventlib.log.port import key_text


def print_list(place: Place, *, as_json: bool) -> None:
    """Print a line for each parked key and effect."""
    found = look(place, parkings)
    if as_json:
        output.print_json(parking_json(parking) for parking in found)
        return
    console = output.terminal()
    if not found:
        console.print("Nothing is parked.")
        return
    shown = output.table(
        "service", "decider", "key", "since (UTC)", "waiting", "reason", right=["waiting"], whole=["since (UTC)"]
    )
    for each in found:
        waiting = str(each.waiting) if each.effect is None else "effect"
        reason = each.reason if each.effect is None else f"{each.effect}: {each.reason}"
        cells = [each.service, each.decider, each.key, output.readable(each.since), waiting, reason]
        shown.add_row(*map(Text, cells))
    console.print(shown)


def print_waiting(place: Place, key: str, *, as_json: bool) -> None:
    """Print the inputs that wait behind a parked key."""

    async def waiting(log: EventLog) -> list[tuple[Parking, list[WaitingInput]]]:
        found = _of_key(await parkings(log), key)
        return [(parking, await waiting_inputs(log, parking)) for parking in found]

    for number, (parking, inputs) in enumerate(look(place, waiting)):
        lines = [_input_json(parking, each) for each in inputs]
        if as_json:
            output.print_json(lines)
            continue
        if number:
            print()
        _print_inputs(parking, lines)


def request_retries(place: Place, wanted: tuple[str, str] | None, *, as_json: bool) -> None:
    """Ask for a (decider, key) to be handled again, or for everything that is parked."""

    async def requested(log: EventLog) -> list[tuple[Parking, int]]:
        found = await parkings(log)
        if wanted is not None:
            decider = log.choreography.decider(wanted[0]).name
            found = _of_key([parking for parking in found if parking.decider == decider], wanted[1])
        return [(parking, (await request_retry(log, parking, user())).offset) for parking in found]

    asked = look(place, requested)
    if as_json:
        output.print_json({**parking_json(parking), "requested_at_offset": offset} for parking, offset in asked)
        return
    for parking, _ in asked:
        print(f"Asked {parking.service} to try {parking.effect or parking.decider} {parking.key} again.")
    print("The services do it when they run." if asked else "Nothing is parked.")


def _of_key(found: list[Parking], key: str) -> list[Parking]:
    kept = [parking for parking in found if key in {parking.key, parking.id}]
    if not kept:
        raise ContractError(f"nothing is parked under {key!r}: `eventlib parked list` shows what is")
    return kept


def parking_json(parking: Parking) -> dict[str, object]:
    """Return what is parked as JSON has it."""
    return {**asdict(parking), "since": output.iso(parking.since)}


def _input_json(parking: Parking, waiting: WaitingInput) -> dict[str, object]:
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
        "data": reading.value,
    }
    if reading.error is not None:
        line |= {"error": reading.error, "bytes": (record.value or b"").hex()}
    return line


def _print_inputs(parking: Parking, lines: list[dict[str, object]]) -> None:
    console = output.terminal()
    what = f"effect {parking.effect}" if parking.effect else f"{len(lines)} waiting"
    console.print(Text.assemble((f"{parking.decider} {parking.key}", "bold"), f"  {parking.service}, {what}"))
    for line in lines:
        grid = Table.grid(padding=(0, 2))
        place = f"{line['topic']}/{line['partition']}@{line['offset']}" if line["topic"] else "a deadline"
        content = line["bytes"] if "bytes" in line else output.json_line(line["data"]).decode()
        rows = {"from": f"{place}  {line['recorded_at']}", "id": line["id"], "reason": line["reason"]}
        if line.get("error") not in (None, line["reason"]):
            rows["error"] = line["error"]
        rows["bytes" if "bytes" in line else "data"] = content
        console.print()
        console.print(Text(str(line["type"] or "(no type)"), style="bold"))
        for name, value in rows.items():
            grid.add_row(Text(name, style="dim"), Text(str(value), overflow="fold"))
        console.print(grid)
