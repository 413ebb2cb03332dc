"""The commands that look at the past through the journal: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, LogOptions


def history(  # noqa: PLR0913, PLR0917  one argument for each option
    context: typer.Context,
    decider: Annotated[str, typer.Argument(metavar="DECIDER", help="A decider's name; `eventlib graph` shows them.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="An order's id, a product's SKU: what the decider has.")],
    unfold: Annotated[
        bool, typer.Option("--all", "-a", metavar="", help="A line for each event, however many are of one kind.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Show what a decider did with a key, step by step.

    Each step has what came in and who said it, what was said in answer, and
    what changed in the state. It is what was recorded: no handler and no effect
    runs, and what was parked, dropped or overdue is a step as well.

    [dim]Examples:[/dim]
      eventlib history payment 536365
      eventlib history shelf 85123A --json | jq -r '[.at, .state.on_hand] | @tsv'
    """
    from eventlib.cli.history import print_history

    print_history(LogOptions.of(context, app, log), decider, key, fold=not unfold, as_json=as_json)
