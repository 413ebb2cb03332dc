"""The values that attributes have, as a query writes them: for completion, and for examples in messages."""

from datetime import datetime

from eventlib.index.attributes import Attribute
from eventlib.index.log_index import LogIndex
from eventlib.model.event import contract_of
from eventlib.search.compiling import LAST
from eventlib.search.language import literal
from eventlib.values import from_ms, iso, now_ms

_RECENT = 1_000
_FREQUENT = """
SELECT v FROM (SELECT {sql} AS v FROM {rows} LIMIT {most}) WHERE v IS NOT NULL GROUP BY v ORDER BY count(*) DESC, v LIMIT 200
"""
_IN_ORDER = """
SELECT DISTINCT v FROM (SELECT {sql} AS v FROM _sagas AS s WHERE {sql} BETWEEN :begins AND :last ORDER BY 1 LIMIT {most})
"""


def values_of(index: LogIndex, attribute: Attribute, begins: str = "") -> list[str]:
    """Return some values of an attribute that begin so, as a query writes them: its choices, else the most frequent recent ones.

    Cost: it looks at the newest sagas, and at some values in their order.
    """
    name, kind = attribute.name, attribute.kind
    if kind.choices:
        stored: list[str | float] = [*kind.choices]
    elif kind.type == "duration":
        return ["15m", "2h", "1d"]
    elif name == "event_type":
        stored = [contract_of(each).type for each in index.log.choreography.events]
    else:
        rows = "_sagas AS s ORDER BY s.started_at DESC"
        if attribute.of:
            table, _, named = attribute.of.partition("/")
            table = table if attribute.drives else "_code"  # what is read of it for one saga, is there for all
            rows = f"{table} AS m {f'WHERE m.name = {literal(named)}' if named else ''}"
        names = {"sql": attribute.sql, "rows": rows, "most": _RECENT}
        of_index = begins and kind.type == "text" and attribute.index
        asked = [*([_IN_ORDER] if of_index else []), _FREQUENT]
        bound = {"begins": begins, "last": begins + LAST, "now": now_ms()}
        stored = [row[0] for each in asked for row in index.db.execute(each.format(**names), bound)]
    written = [_written(attribute, each) for each in dict.fromkeys(stored)]
    return [each for each in written if each.strip("'").casefold().startswith(begins.casefold())]


def _written(attribute: Attribute, stored: str | float) -> str:
    shown = from_ms(int(stored)) if attribute.kind.type == "time" else attribute.kind.shown(stored)
    if isinstance(shown, datetime):
        return literal(iso(shown))
    return literal(shown) if isinstance(shown, str) else str(shown).lower()
