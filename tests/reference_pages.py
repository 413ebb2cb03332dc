"""Writes the generated parts of docs/reference: `python -m tests.reference_pages`; tests/unit/test_reference.py compares."""

import asyncio
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import AnyHttpUrl, SecretStr, TypeAdapter
from pyspark.sql.types import StructType

from analytics.audit.application import Application
from analytics.history import Fold
from analytics.history.building import by_name
from analytics.rebuilding.catalogue import catalogue_of
from analytics.tables import Table
from eventlib import open_log
from eventlib.admin.api import create_admin
from eventlib.cli.app import PANELS, app
from eventlib.config.effective import as_text, described
from eventlib.config.settings import PARTS
from eventlib.console.app import create_console
from eventlib.console.sessions import SessionIdentity
from eventlib.http.gate import rules_of
from eventlib.http.serving import METRICS_RULES
from eventlib.identity import Identity, IdentityOptions, Role, Rule
from eventlib.index.tables import ONLY_REBUILT, live_tables
from eventlib.operations.act import Act
from eventlib.operations.every_act import ACTS
from eventlib.telemetry.catalogue import METRICS
from services import shop
from services.order.api import create_app
from services.settings import ShopSettings
from services.simulation.ledger import Ledger
from services.simulation.server import make_app
from services.simulation.simulators import Simulators
from tests.api_names import renew_names, renewed

REFERENCE = Path(__file__).parents[1] / "docs/reference"
_METRICS_HEAD = "| Prometheus | OpenTelemetry | Kind | Labels | Meaning |\n|---|---|---|---|---|"
_TYPES = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    SecretStr: "secret text",
    AnyHttpUrl: "URL",
    type(None): "",
}


def generated() -> dict[str, dict[str, str]]:
    """Return the Markdown of each generated block, by page and name."""
    table = [(name, command.load(name)) for panel in PANELS.values() for name, command in panel.items()]
    found = [("eventlib", typer.main.get_command(app))]
    found += [each for name, command in table for each in _commands(command, f"eventlib {name}")]
    commands = {path: _command(path, command) for path, command in found}
    return {
        "cli.md": commands,
        "settings.md": {name: _settings(name) for name in PARTS},
        "metrics.md": _metrics(),
        "roles.md": asyncio.run(_roles()),
        "acts.md": {"acts": "\n".join(map(_act, ACTS))},
        "tables.md": _tables(),
    }


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield path, command
    for name, each in below.items():
        yield from _commands(each, f"{path} {name}")


def _command(path: str, command: Any) -> str:
    text = re.sub(r"\[/?dim\]", "", inspect.cleandoc(command.help or "").replace("\\[", "["))
    prose, _, examples = text.partition("\n\nExamples:\n")
    parts = [
        "```text\n" + " ".join([path, "[OPTIONS]", *_usage(command)]) + "\n```",
        prose.partition("\n\nBegin with:")[0].replace("<", "&lt;"),
    ]
    shown = [each for each in command.params if not each.hidden]
    arguments = [f"| `{_metavar(each)}` | {_help(each)} |" for each in shown if each.param_type_name == "argument"]
    options = [f"| {_names(each)} | {_help(each)} |" for each in shown if each.param_type_name == "option"]
    if arguments:
        parts.append("\n".join(["| Argument | Meaning |", "|---|---|", *arguments]))
    if options:
        parts.append("\n".join(["| Option | Meaning |", "|---|---|", *options]))
    if examples:
        parts.append("```text\n" + inspect.cleandoc(examples) + "\n```")
    return "\n".join(f"{part}\n" for part in parts)


def _usage(command: Any) -> Iterator[str]:
    for each in (each for each in command.params if each.param_type_name == "argument"):
        name = re.sub(r"^\[(\w+)\]\.\.\.$", r"\1", _metavar(each)) + ("..." if each.nargs == -1 else "")
        yield name if each.required else f"[{name}]"
    if getattr(command, "commands", None):
        yield "[COMMAND]" if command.invoke_without_command else "COMMAND"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _names(option: Any) -> str:
    value = "" if option.is_flag else f" {_metavar(option)}"
    return ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts]).replace("|", "\\|")


def _help(parameter: Any) -> str:
    text = re.sub(r"\[/?dim\]", "", (parameter.help or "").replace("\\[", "[")).replace("|", "\\|")
    default = parameter.default
    is_shown = parameter.show_default and not getattr(parameter, "is_flag", False) and default not in (None, (), "")
    ends = (" Required." if parameter.required else "") + (f" Default: `{default}`." if is_shown else "")
    return text + ends


def _settings(part: str) -> str:
    rows = ["| Variable | Type | Default | Meaning |", "|---|---|---|---|"]
    for settings in PARTS[part]:
        for variable, field, default in described(settings):
            shown = "" if default in (None, "") else f"`{as_text(default)}`"
            rows.append(f"| `{variable}` | {_type(field.annotation)} | {shown} | {field.description} |")
    return "\n".join(rows) + "\n"


def _type(kind: Any) -> str:
    if get_args(kind) and all(isinstance(each, str) for each in get_args(kind)):
        return ", ".join(f"`{each}`" for each in get_args(kind))
    if get_origin(kind) is Annotated:
        return _type(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{each.value}`" for each in kind)
    if get_origin(kind) is None:
        return _TYPES.get(kind, getattr(kind, "__name__", str(kind)))
    return " or ".join(dict.fromkeys(filter(None, map(_type, get_args(kind)))))


def _metrics() -> dict[str, str]:
    pages = dict[str, list[str]]()
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        row = f"| `{metric.prometheus}` | `{metric.name}` | {metric.kind} | {labels} | {metric.description} |"
        pages.setdefault(metric.measured_by, [_METRICS_HEAD]).append(row)
    return {name: "\n".join(rows) + "\n" for name, rows in pages.items()}


async def _roles() -> dict[str, str]:
    """Return who may call each route, by server, from the rules that the routes have."""
    identity = Identity(IdentityOptions(insecure=True))
    async with open_log("memory://", shop) as log:
        apps: dict[str, Any] = {
            "order API": create_app(log),
            "admin API": create_admin(log, identity=identity),
            "console": create_console(log, SessionIdentity(IdentityOptions(insecure=True))),
            "simulators": make_app(Simulators(Ledger(":memory:"), ShopSettings()), identity),
        }
        rules = {name: rules_of(app) for name, app in apps.items()} | {"metrics": METRICS_RULES}
    return {name: _role_table(each) for name, each in rules.items()}


def _act(act: type[Act[Any, Any]]) -> str:
    """Return an act's route, what it does, and the fields that are its own, each with its place."""
    address, own = re.findall(r"{(\w+)", act.path), act.own_fields()
    rows = ["| Field | In | Type | Meaning |", "|---|---|---|---|"]
    for name, field in own.items():
        if name not in address:
            place, ends = "query" if name in act.query else "body", " Required." if field.is_required() else ""
            cells = field.alias or name, place, _json_type(field.annotation), (field.description or "") + ends
            rows.append("| `{}` | {} | {} | {} |".format(*cells))
    reason = "It needs a reason." if act.needs_reason else "Its reason may be empty."
    head = f"### `POST {re.sub(r':key', '', act.path)}`\n\n{act.__doc__} {reason}\n\n"
    return head + ("\n".join(rows) + "\n" if rows[2:] else "")


def _json_type(kind: Any) -> str:
    schema = TypeAdapter(kind).json_schema()
    kinds = [str(each.get("type", "any")) for each in schema.get("anyOf", [schema])]
    return " or ".join(each for each in kinds if each != "null")


def _tables() -> dict[str, str]:
    """Return the tables of the shop: those of any application, but for one event's and one decider's, and its own."""
    every = catalogue_of(Application("services:shop")).tables
    generic = [each for each in every if not each.place and not each.hidden]
    left_out = [each.name for each in generic if each.name.startswith(("event_", "state_"))]
    shown = [each for each in generic if each.name not in left_out or each.name in _EXAMPLES]
    columns = {name: table.schema for name, table in by_name(Fold(Application("services:shop"))).items()}
    return {
        "generic": _table_list(shown) + "".join(map(partial(_table_columns, columns), shown)),
        "shop": _table_list(each for each in every if each.place and not each.hidden),
        "live": _live_tables(),
    }


def _live_tables() -> str:
    """Return the live tables that every application has, with what the rebuilt ones have beyond them."""
    names = ("sagas", "saga_steps", "effects", "parked", "deadlines")
    rows = [
        f"| `{each.name}` | {each.doc} | {', '.join(f'`{name}`' for name in sorted(ONLY_REBUILT.get(each.name, ())))} |"
        for each in live_tables(shop)
        if each.name in names
    ]
    return "\n".join(["| Table | Content | Only rebuilt |", "|---|---|---|", *rows]) + "\n"


_EXAMPLES = ("event_order_placed", "state_order", "state_order_history")


def _table_list(tables: Iterable[Table]) -> str:
    rows = [
        f"| `{each.name}` | {', '.join(f'`{name}`' for name in each.key)} | {_first(each.doc)} |" for each in tables
    ]
    return "\n".join(["| Table | Key | Content |", "|---|---|---|", *rows]) + "\n"


def _table_columns(schemas: Mapping[str, StructType], table: Table) -> str:
    if table.name in schemas:
        rows = [f"| `{each.name}` | {each.dataType.simpleString()} | |" for each in schemas[table.name].fields]
    else:
        rows = [f"| `{name}` | | {column.doc} |" for name, column in table.columns.items()]
    return "\n".join([f"\n### `{table.name}`\n", "| Column | Type | Meaning |", "|---|---|---|", *rows]) + "\n"


def _first(text: str) -> str:
    return text.partition("\n")[0].replace("|", "\\|")


def _role_table(rules: Iterable[Rule]) -> str:
    roles = [role for role in Role if role is not Role.ADMIN]
    rows = ["| Route | everyone | " + " | ".join(roles) + " |", "|---" * (len(roles) + 2) + "|"]
    for rule in sorted(rules, key=lambda each: (each.path, sorted(each.methods))):
        marks = ["own" if role is Role.CUSTOMER else "yes" if role in rule.roles else "" for role in roles]
        shown = ["" if role not in rule.roles else mark for role, mark in zip(roles, marks, strict=True)]
        methods = ", ".join(sorted(rule.methods - {"HEAD"}))
        rows.append(f"| `{methods} {rule.path}` | {'' if rule.roles else 'yes'} | {' | '.join(shown)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Renew the pages."""
    renew_names()
    for page, blocks in generated().items():
        path = REFERENCE / page
        path.write_text(renewed(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
