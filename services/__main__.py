"""The shop's own commands: `python -m services import FILE`, `python -m services demo`."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eventlib.errors import EventlibError
from services.demo import DEFAULT_ORDERS, demo_path, stock_for, write_orders
from services.importing.display import progress_on
from services.importing.importer import ImportConfig, import_file
from services.importing.summary import DEFAULT_LOG, show_summary
from services.outside import Outside

app = typer.Typer(name="services", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended, as shells count it (128 + SIGINT)."""

LogOption = Annotated[
    str,
    typer.Option("--log", envvar="EVENTLIB_LOG", metavar="URL", help="The log: sqlite:///PATH or kafka://HOST:PORT."),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Says which orders the rates hit.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")]


@app.callback()
def services() -> None:
    """Place orders in the shop, and watch what becomes of them."""


@app.command("import")
def import_orders(  # noqa: PLR0913, PLR0917  each parameter is an option of the command
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Orders: .ndjson, .ndjson.gz, or Online Retail .csv.")],
    log: LogOption = DEFAULT_LOG,
    stock: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Units delivered of each product.")] = 1_000,
    decline: Annotated[float, typer.Option(min=0, max=1, help="Share of orders whose payment is refused.")] = 0.0,
    undeliverable: Annotated[float, typer.Option(min=0, max=1, help="Share that the carrier will not bring.")] = 0.0,
    gateway_timeout: Annotated[
        float, typer.Option(min=0, max=1, help="Share of calls to the gateway that stay unanswered.")
    ] = 0.0,
    seed: SeedOption = 0,
    rejects: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write refused orders here: order_id, reason, detail.")
    ] = None,
    place_only: Annotated[
        bool, typer.Option("--place-only", help="Place the orders, and leave the rest to services that run elsewhere.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Import a file's orders, run the services until each has ended, and tell what became of them.

    Importing the same file again changes nothing; an import that was interrupted goes on where it was.
    """
    outside = Outside(decline=decline, undeliverable=undeliverable, gateway_timeout=gateway_timeout, seed=seed)
    config = ImportConfig(log_url=log, stock_units=stock, place_only=place_only, rejects=rejects, outside=outside)
    _import(file, config, as_json=as_json)


@app.command()
def demo(
    orders: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many orders to make.")] = DEFAULT_ORDERS,
    seed: Annotated[int, typer.Option(help="Another seed makes other orders.")] = 1,
    log: LogOption = DEFAULT_LOG,
    as_json: JsonOption = False,
) -> None:
    """Make orders, some of them dirty, and import them: 5 % are declined, 1 % are undeliverable."""
    path = demo_path(log, orders, seed)
    write_orders(path, orders, seed)
    Console(stderr=True).print(f"{orders:,} orders, made with seed {seed}: {path}", highlight=False, markup=False)
    outside = Outside(decline=0.05, undeliverable=0.01, seed=seed)
    _import(path, ImportConfig(log_url=log, stock_units=stock_for(orders), outside=outside), as_json=as_json)


def _import(path: Path, config: ImportConfig, *, as_json: bool) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with progress_on(Console(stderr=True)) as progress:
        report = asyncio.run(import_file(path, config, progress))
    if as_json:
        sys.stdout.write(json.dumps(report.as_json(), ensure_ascii=False) + "\n")
    else:
        show_summary(Console(), report)


def main() -> None:
    """Run a command, and exit: 0 fine, 1 an error, 2 a wrong option, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    try:
        code = app(arguments, prog_name="python -m services", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (EventlibError, OSError) as error:
        return _complain(str(error) or type(error).__name__, 1)
    except Exception as error:
        if os.environ.get("EVENTLIB_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}"
        return _complain(f"something unforeseen: {what} (EVENTLIB_TRACEBACK=1 shows where)", 1)
    if code == INTERRUPTED:
        return _complain("interrupted; start it again and it goes on where it was", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _complain(sentence: str, code: int) -> int:
    if sentence:  # without a command, the help was printed, and nothing is left to say
        sys.stderr.write(f"services: {sentence}\n")
    return code


if __name__ == "__main__":
    main()
