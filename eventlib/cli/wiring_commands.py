"""The commands that look at the wiring: their names, their options and their help."""

from typing import Annotated

import typer

from eventlib.cli.options import AppOption, JsonOption, LogOption, Place


def check(
    context: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", metavar="", help="Warnings end with exit code 1, too.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    log: LogOption = None,
) -> None:
    """Look for faults that types show: what is forgotten, what is never undone.

    Events that nobody handles, handlers that nobody feeds; steps that stay
    done after a failure (events say failure=True and reverses=OtherEvent);
    waits without a deadline, rings, effects that give up, keys that are none.

    Exit code 1 for errors, 0 for warnings. What is meant to be so is named in
    Choreography(accepts=[Accepted(RULE, SUBJECT, REASON)]), from
    eventlib.findings: it is shown with its reason, and counts no more.

    [dim]Examples:[/dim]
      eventlib check
      eventlib check --strict
      eventlib check --json | jq -r 'select(.accepted == null) | .what'
    """
    from eventlib.cli.checking import print_check

    raise typer.Exit(print_check(Place.of(context, app, log), strict=strict, as_json=as_json))


def graph(context: typer.Context, app: AppOption = None, log: LogOption = None) -> None:
    """Print a Mermaid flowchart: who says what to whom, on which topic.

    [dim]Example:[/dim]
      eventlib graph > choreography.mmd
    """
    from eventlib.cli.mermaid import flowchart
    from eventlib.cli.project import load_choreography

    print(flowchart(load_choreography(Place.of(context, app, log).app)))
