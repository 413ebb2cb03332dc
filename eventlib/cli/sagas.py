"""`eventlib sagas`: finds sagas by what they are, what they wait for, and what the application declares of them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, option
from eventlib.cli._common.searching import WhereOption, page_json, run_on_sagas
from eventlib.cli._common.typer_ext import group
from eventlib.index.attributes import declared_in
from eventlib.model.project import load_choreography
from eventlib.operations.saga_filters import NEWEST, SagaFilters
from eventlib.search.compiling import sagas_of
from eventlib.search.saga_search import MOST_LIMIT, SagaPage, SagaQuery, SagaSearch

sagas = group("Find sagas: by status, by what they wait for, and by declared attributes.")


@sagas.command("list")
def list_(  # noqa: PLR0913, PLR0917  its options
    log_options: LogOptions,
    where: WhereOption = "",
    saved: Annotated[str, option("--filter", "NAME", "A filter that operators share; `--where` narrows it.")] = "",
    order_by: Annotated[str, option("--order-by", "NAME", "An attribute, with asc or desc.")] = NEWEST,
    limit: Annotated[int, option("--limit", "N", "How many, at most.", min=1, max=MOST_LIMIT)] = 50,
    after: Annotated[str | None, option("--after", "NEXT", "Go on behind the last page: its `next`.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List sagas, the newest first, with what each waits for.

    The first call on a machine makes an index from the log; the next ones read
    what is new. It needs no running service.

    [dim]Examples:[/dim]
      eventlib sagas list --where "status = 'overdue'"
      eventlib sagas list --where "waiting_for = 'gateway' and age > 2h"
      eventlib sagas list --where "country = 'France' and amount_cents > 10000" --order-by "amount_cents desc"
      eventlib sagas list --where "parked_reason like '%KeyError%'" --json | jq -r '.sagas[].saga'
    """
    query = SagaQuery(where, order_by, limit, after)

    async def found(search: SagaSearch) -> SagaPage:
        if not saved:
            return await search.full_page(query)
        content = await SagaFilters(search.log).named(saved)
        by = content.order_by if order_by == NEWEST else order_by
        return await search.full_page(SagaQuery(content.narrowed(where), by, limit, after))

    page = run_on_sagas(log_options, found)
    if as_json:
        output.print_json([page_json(page)])
        return
    if not page.sagas:
        output.say("No saga is so.")
    else:
        columns = [each.name for each in sagas_of(load_choreography(log_options.app)) if each.name in page.sagas[0]]
        declared = [name for name in columns if name in declared_in(load_choreography(log_options.app))]
        shown, rows = (
            ["saga", "status", "reason", "started (UTC)", "waits for"],
            (_cells(saga, declared) for saga in page.sagas),
        )
        output.print_table([*shown, *declared], rows, whole=["started (UTC)", "status"], spare=declared)
        for saga in page.sagas:
            for wait in (each for each in saga["waits"] if each["command"]):
                line = f"{saga['saga']}: {wait['name']} is parked: {wait['reason']}: {wait['command']}"
                output.say(line, "red")
    more = f"; for more: --after {page.next}" if page.next else ""
    count = output.counted(len(page.sagas), "saga")
    output.say(f"{count}, {page.staleness_ms:,} ms old{more}", "dim")
    if page.damaged:
        output.warn(f"{output.counted(page.damaged, 'record')} of the log cannot be read, and may be missing here")


def _wait(wait: Mapping[str, Any]) -> str:
    return f"{wait['name']} ({wait['kind']})" if wait["kind"] in {"paused", "parked"} else str(wait["name"])


def _cells(saga: Mapping[str, Any], declared: Sequence[str]) -> list[str]:
    status = saga["status"] if saga["status"] == "ended" or not saga["state"] else f"{saga['status']}: {saga['state']}"
    if saga["status"] == "ended":
        status = saga["outcome"]
    waits = ", ".join(dict.fromkeys(_wait(each) for each in saga["waits"]))
    texts = [saga["saga"], status, saga["reason"] or "", output.readable(saga["started_at"]), waits]
    texts += ["" if saga[name] is None else str(saga[name]) for name in declared]
    return texts


@sagas.command()
def attributes(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List what queries can name: what every saga has, and what events and states declare.

    Compare by =, !=, <, <=, >, >=, in (…), between … and …, like '%…%', and
    is null; join by and, or, not. Texts and times stand in '…', durations are
    90s, 15m, 2h or 1.5d.

    [dim]Examples:[/dim]
      eventlib sagas attributes
    """
    rows = [
        {
            "name": each.name,
            "type": each.kind.type,
            "values": list(each.kind.choices),
            "sorts": bool(each.index),
            "about": each.about,
        }
        for each in sagas_of(load_choreography(log_options.app))
    ]
    if as_json:
        output.print_json(rows)
        return
    shown = [(str(row["name"]), str(row["type"]), "yes" if row["sorts"] else "", str(row["about"])) for row in rows]
    output.print_table(["name", "type", "sorts", "meaning"], shown)
