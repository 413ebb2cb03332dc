"""`eventlib sql`: a question in SQL over what is on the log now, as a table, JSON or CSV."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, argument, flag, option, run_on_log
from eventlib.cli._common.searching import up_to_now
from eventlib.errors import ContractError
from eventlib.model.project import load_choreography
from eventlib.sql import Answer, LiveTable, SqlQuery, ask, live_tables
from eventlib.sql.asking import MOST_ROWS, MOST_S
from eventlib.values import escaped_lines


def sql(
    log_options: LogOptions,
    question: Annotated[str | None, argument("SELECT", "One SELECT. Without it: the tables.")] = None,
    limit: Annotated[int, option("--limit", "N", "How many rows, at most.", min=1, max=MOST_ROWS)] = 1_000,
    timeout: Annotated[float, option("--timeout", "SECONDS", "How long it may take.", min=0.1, max=MOST_S)] = 30.0,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, flag("--csv", "Print CSV, for spreadsheets.")] = False,
) -> None:
    """Ask in SQL over events, states and sagas, as they are now.

    The SQL is SQLite's, the tables are those of `python -m analytics rebuild`,
    by the same names and columns, as far as a log tells them at once. It only
    reads, and needs no Java and no running service. The first question
    about a table reads its topics from the log; the next ones read what is new.
    Personal data is masked.

    [dim]Examples:[/dim]
      eventlib sql
      eventlib sql "SELECT outcome, count(*) FROM sagas GROUP BY outcome"
      eventlib sql "SELECT key, stock, money FROM state_order WHERE country = 'France'" --csv
      eventlib sql "SELECT * FROM event_order_placed WHERE amount_cents > 10000" --json | jq -r '.rows[].order_id'
    """
    if as_json and as_csv:
        raise typer.BadParameter("excludes --json", param_hint="--csv")
    if question is None:
        tables = live_tables(load_choreography(log_options.app))
        if as_json:
            output.print_json(tables_json(tables))
            return
        output.print_table(["table", "columns"], [(table.name, ", ".join(table.columns)) for table in tables])
        return
    query = SqlQuery(question, limit, timeout)
    answer = run_on_log(log_options, lambda opened: ask(opened, query, up_to_now=up_to_now))
    if as_json:
        output.print_json([answer_json(answer)])
    elif as_csv:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(map(escaped_lines, answer.columns))
        lines.writerows([escaped_lines(_text(value)) for value in row] for row in answer.rows)
    else:
        _print(answer)
    if answer.is_cut and not as_json:
        output.warn(
            f"only the first {len(answer.rows):,} rows are shown: narrow the question, or give a higher --limit"
        )
    if answer.damaged:
        output.warn(f"{output.counted(answer.damaged, 'record')} of the log cannot be read, and may be missing here")


def tables_json(tables: Sequence[LiveTable]) -> list[dict[str, object]]:
    """Return tables as JSON: each column with its type."""
    return [
        {
            "table": table.name,
            "about": table.doc,
            "columns": {name: kind for name, (kind, _) in table.columns.items()},
        }
        for table in tables
    ]


def answer_json(answer: Answer) -> dict[str, object]:
    """Return an answer as JSON. Raises: ContractError when two of its columns have one name."""
    twice = next((name for name, count in Counter(answer.columns).items() if count > 1), None)
    if twice is not None:
        raise ContractError(f"two columns of the answer are named {twice}: name one differently, with AS")
    return {
        "columns": answer.columns,
        "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows],
        "is_cut": answer.is_cut,
        "damaged": answer.damaged,
        "position": dict(answer.position),
    }


def _print(answer: Answer) -> None:
    numbers = [name for i, name in enumerate(answer.columns) if all(_is_number(row[i]) for row in answer.rows)]
    shown = output.table(*map(output.printable, answer.columns), right=numbers)
    for row in answer.rows:
        shown.add_row(*map(_text, row))
    output.terminal().print(shown)
    rows = output.counted(len(answer.rows), "row")
    read = f"{sum(answer.position.values()):,} offsets of {len(answer.position):,} partitions"
    output.say(f"{rows}, as of {read} (--json names each)", "dim")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
