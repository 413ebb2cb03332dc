"""`python -m analytics test`."""

from analytics.audit.application import Application
from analytics.commands.starting import session_for
from analytics.rebuilding.catalogue import catalogue_of
from analytics.rebuilding.testing import tested_tables
from analytics.stores import Place, tables
from eventlib import command_line


def test_command(out: Place, application: Application, *, as_json: bool) -> bool:
    """Test the tables in a directory, print what does not hold, and return whether there is any."""
    catalogue = catalogue_of(application)
    found = tables(session_for("test", None, out), out)
    results = tested_tables(catalogue, found)
    broken = [each for each in results if each.rows]
    if as_json:
        command_line.print_json([each._asdict() for each in results])
        return bool(broken)
    if broken:
        shown = command_line.table(
            "table", "column", "test", "rows", "such as", right=["rows"], whole=["table", "column"]
        )
        for each in broken:
            shown.add_row(each.table, each.column, each.test, f"{each.rows:,}", command_line.printable(each.example))
        command_line.terminal().print(shown)
    tested = len({each.table for each in results})
    told = f"{len(broken)} do not hold" if broken else "all hold"
    print(f"{command_line.counted(len(results), 'test')} of {command_line.counted(tested, 'table')}: {told}.")
    return bool(broken)
