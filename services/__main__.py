"""The shop's commands: `python -m services import FILE`, `demo`, `smoke`, `simulators`."""

import asyncio
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from eventlib import command_line
from eventlib.command_line import Command, Group, collect_garbage_seldom, run_command
from eventlib.config import eventlib_settings
from eventlib.identity import identity_of
from services import shop
from services.demo import DEFAULT_ORDERS, demo_path, stock_for, write_orders
from services.importing.display import ImportProgress
from services.importing.importer import ImportConfig, import_file
from services.importing.summary import show_summary
from services.settings import demo_settings, refuse_vain_faults, shop_settings
from services.smoke import PATIENCE_S, SmokeConfig, smoke

app = typer.Typer(
    name="services",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)

LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help=f"The log. [dim]Default: $EVENTLIB_LOG, or {shop.default_log}[/dim]",
        show_default=False,
    ),
]


def _rate(text: str) -> Any:  # an option's type is not public
    return typer.Option(metavar="RATE", min=0, max=1, help=text, show_default=False)


DeclineOption = Annotated[float | None, _rate("Share of orders whose payment is refused.")]
UndeliverableOption = Annotated[float | None, _rate("Share of orders that the carrier refuses to deliver.")]
GatewayTimeoutOption = Annotated[float | None, _rate("Share of calls to the gateway that stay unanswered.")]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Selects the orders that the rates apply to.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print the summary as one JSON object.")]


@app.callback()
def services() -> None:
    """Place orders in the shop, and report how they end."""


@app.command("import", cls=Command)
def import_orders(  # noqa: PLR0913, PLR0917  each parameter is an option of the command
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Orders: .ndjson, .ndjson.gz, or Online Retail .csv.")],
    log: LogOption = None,
    stock: Annotated[
        int, typer.Option(metavar="UNITS", min=1, max=1_000_000_000, help="Delivered of each product.")
    ] = 1_000,
    decline: DeclineOption = None,
    undeliverable: UndeliverableOption = None,
    gateway_timeout: GatewayTimeoutOption = None,
    seed: SeedOption = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Write refused orders here: order_id, reason, detail."),
    ] = None,
    place_only: Annotated[
        bool, typer.Option("--place-only", metavar="", help="Only place the orders, for services that run elsewhere.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Import a file's orders, and report how they ended.

    The services run until each order has ended. Importing the same file again
    changes nothing; an interrupted import resumes where it stopped.

    [dim]Examples:[/dim]
      python -m services import orders.ndjson.gz --decline 0.05
      python -m services import online-retail.csv --rejects refused.ndjson
    """
    settings = shop_settings(decline=decline, undeliverable=undeliverable, gateway_timeout=gateway_timeout, seed=seed)
    refuse_vain_faults(settings, gateway=[decline, gateway_timeout], carrier=[undeliverable])
    url = eventlib_settings(log=log).log or shop.default_log
    config = ImportConfig(log_url=url, stock_units=stock, place_only=place_only, rejects=rejects, settings=settings)
    _import(file, config, as_json=as_json)


@app.command(cls=Command)
def demo(
    orders: Annotated[int, typer.Option(metavar="N", min=1, max=10_000_000, help="How many to make.")] = DEFAULT_ORDERS,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Another seed makes other orders.", show_default=False)
    ] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make orders, some of them dirty, and import them.

    5 % are declined, 1 % are undeliverable.

    [dim]Example:[/dim]
      python -m services demo --orders 500 --seed 7
    """
    url = eventlib_settings(log=log).log or shop.default_log
    config = ImportConfig(log_url=url, stock_units=stock_for(orders), settings=demo_settings(seed))
    made_with = config.settings.seed
    path = demo_path(url, orders, made_with)
    write_orders(path, orders, made_with)
    command_line.terminal(stderr=True).print(f"{orders:,} orders, made with seed {made_with}: {path}", markup=False)
    _import(path, config, as_json=as_json)


@app.command("identity", cls=Command)
def make_secrets(
    directory: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="Where they are kept.")],
) -> None:
    """Make the key and the tokens of an installation, unless they are there.

    For `docker compose`: where an operator hands out secrets, `eventlib token`
    makes them one by one.

    [dim]Example:[/dim]
      python -m services identity var/identity
    """
    from services.identity import make_identity

    made = make_identity(directory)
    print(f"{len(made)} secrets made in {directory}.")


@app.command(cls=Command)
def simulators(  # noqa: PLR0913, PLR0917  each parameter is an option of the command
    host: Annotated[str, typer.Option(metavar="HOST", help="The address to answer at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65_535, help="0 takes a free one.", show_default=False),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Records every call that took effect.", show_default=False),
    ] = None,
    seed: SeedOption = None,
    decline: DeclineOption = None,
    undeliverable: UndeliverableOption = None,
    gateway_timeout: GatewayTimeoutOption = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", metavar="", help="Let everyone in who reaches the address.")
    ] = False,
    hang: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.001, help="How long until an unanswered call is cut.", show_default=False
        ),
    ] = None,
) -> None:
    """Serve a payment gateway and a carrier over HTTP.

    They have faults that can be changed while they run (PUT /faults).

    [dim]Example:[/dim]
      python -m services simulators --port 8090 --decline 0.1
    """
    from services.simulation.server import serve

    settings = shop_settings(
        simulators_port=port,
        simulators_ledger=ledger,
        seed=seed,
        decline=decline,
        undeliverable=undeliverable,
        gateway_timeout=gateway_timeout,
        hang_s=hang,
    )
    serve(host, settings, identity_of(insecure=insecure or None))


@app.command("smoke", cls=Command)
def smoke_test(
    api: Annotated[str, typer.Option(metavar="URL", help="Where the order API answers.")] = "http://127.0.0.1:8000",
    log: LogOption = None,
    orders: Annotated[int, typer.Option(metavar="N", min=2, max=100_000, help="How many to place.")] = 20,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="How long each step may take.")
    ] = PATIENCE_S,
    views: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of order's live views; checks their counts.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Test a running shop: place orders over HTTP, wait until all have ended, and check the log's invariants.

    The orders are for products of their own, which are listed and delivered
    first, so that no other stock is touched. Exit code 1 when a check
    fails.

    [dim]Example:[/dim]
      python -m services smoke --api http://localhost:8000 --log kafka://localhost:29091/?application=shop
    """
    url = eventlib_settings(log=log).log or shop.default_log
    found = asyncio.run(smoke(SmokeConfig(api, url, orders, patience, views)))
    if as_json:
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
    else:
        ends = ", ".join(f"{count} {end}" for end, count in sorted(found.ends.items()))
        console = command_line.terminal()
        console.print(f"{found.orders} orders in {found.seconds:.1f} s: {ends}; {found.events:,} events on the log.")
        if views is not None:
            console.print("The live views have counted them.")
        console.print("\n".join(found.wrong) or "Every invariant holds.", markup=False)
    if found.wrong:
        raise typer.Exit(1)


def _import(path: Path, config: ImportConfig, *, as_json: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with ImportProgress(command_line.terminal(stderr=True)) as progress:
        collect_garbage_seldom()
        report = asyncio.run(import_file(path, config, progress))
    if as_json:
        sys.stdout.write(report.model_dump_json() + "\n")
    else:
        show_summary(command_line.terminal(), report)


def main() -> None:
    """Run a command, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code."""
    return run_command(
        app, "python -m services", arguments, interrupted="interrupted; start it again to resume where it stopped"
    )


if __name__ == "__main__":
    main()
