"""`eventlib schemas`: the contracts of events and states, and their registered schemas."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, argument
from eventlib.cli._common.typer_ext import group
from eventlib.cli.schemas_preflight import check, epoch, level, query_schemas, register
from eventlib.cli.schemas_serve import serve
from eventlib.codec.registry import AVRO, JSON, Schema
from eventlib.contracts.declared import declared, level_of, named
from eventlib.contracts.problem import difference
from eventlib.errors import ContractError
from eventlib.eventlog import EventLog

schemas = group("Check the contracts of events and states, register them, and serve them.")


schemas.command()(check)
schemas.command()(register)


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    kind: str
    subject: str
    contract: int
    versions: int
    level: str
    today: str
    id: int | None


@schemas.command("list")
def list_(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List the contracts: how many versions each has, and whether today's is registered.

    [dim]Examples:[/dim]
      eventlib schemas list
      eventlib schemas list --json | jq -r 'select(.today == "new") | .name'
    """
    rows = query_schemas(log_options, _rows)
    if as_json:
        output.print_json(asdict(row) for row in rows)
        return
    shown = output.table("name", "kind", "subject", "version", "schemas", "level", "today")
    for row in rows:
        today = f"id {row.id}" if row.id is not None else row.today
        cells = row.name, row.kind, row.subject, row.contract, row.versions, row.level, today
        shown.add_row(*cells, style=None if row.kind == "event" else "dim")
    output.terminal().print(shown)


@schemas.command()
def show(
    log_options: LogOptions, name: Annotated[str, argument("NAME[@VERSION]", "Today's, or a registered version.")]
) -> None:
    """Show a schema.

    [dim]Examples:[/dim]
      eventlib schemas show OrderPlaced
      eventlib schemas show OrderPlaced@1
    """

    async def ask(log: EventLog) -> Schema:
        return await _schema(log, name)

    schema = query_schemas(log_options, ask)
    text = json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False) if _is_json(schema) else schema.text
    output.write_lines([text.encode()])


@schemas.command()
def diff(
    log_options: LogOptions,
    before: Annotated[str, argument("NAME[@VERSION]", "A schema; without a version, today's.")],
    after: Annotated[str, argument("NAME[@VERSION]", "The other one.")],
    as_json: JsonOption = False,
) -> None:
    """Show the differences of two schemas, and whether each can read the other's data.

    [dim]Examples:[/dim]
      eventlib schemas diff OrderPlaced@1 OrderPlaced
      eventlib schemas diff OrderPlaced@1 OrderPlaced@2 --json | jq .changes
    """

    async def ask(log: EventLog) -> tuple[Schema, Schema]:
        return await _schema(log, before), await _schema(log, after)

    found = difference(*query_schemas(log_options, ask))
    if as_json:
        output.print_json([asdict(found)])
        return
    if not found.changes:
        output.say("They have the same fields.")
        return
    rows = [(change.field, change.before or "-", change.after or "-") for change in found.changes]
    output.print_table(["field", before, after], rows)
    for reader, writer, reasons in ((after, before, found.backward), (before, after, found.forward)):
        verdict = "; ".join(reasons)
        output.say(f"{reader} cannot read {writer}: {verdict}" if reasons else f"{reader} can read {writer}.")


async def _rows(log: EventLog) -> list[_Row]:
    registry = log.codec.registry
    await log.codec.refresh()
    rows = list[_Row]()
    for each in declared(log):
        versions = await registry.versions(each.subject)
        number = next((version.id for version in versions if version.schema == each.schema), None)
        today = "registered" if number is not None else "changed" if versions else "new"
        level = await level_of(registry, each)
        rows.append(_Row(each.name, each.kind, each.subject, each.version, len(versions), level.value, today, number))
    return rows


async def _schema(log: EventLog, text: str) -> Schema:
    name, _, wanted = text.partition("@")
    each = named(log, name)
    if not wanted:
        return each.schema
    await log.codec.refresh()
    versions = await log.codec.registry.versions(each.subject)
    found = next((version.schema for version in versions if str(version.version) == wanted), None)
    if found is None:
        there = ", ".join(str(version.version) for version in versions) or "none"
        raise ContractError(f"{each.subject} has no version {wanted!r}: there are {there}")
    return found


def _is_json(schema: Schema) -> bool:
    return schema.kind in {AVRO, JSON}


schemas.command()(epoch)
schemas.command()(level)
schemas.command()(serve)
