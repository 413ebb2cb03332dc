"""`eventlib config`: every setting, its value, source and meaning."""

from dataclasses import asdict
from pathlib import Path

import typer
from rich.text import Text

from eventlib.cli._common import output
from eventlib.cli._common.options import AppOption, JsonOption, LogOption, LogOptions, Shared
from eventlib.config.effective import Given, Setting, as_text, settings_now
from eventlib.model.project import load_choreography, nearest


def config(context: typer.Context, as_json: JsonOption = False, app: AppOption = None, log: LogOption = None) -> None:
    """Print every setting: its value, its source, its default, and what it means.

    A setting comes from an option, else from the environment, else from
    pyproject.toml, else it is the default. Of a secret, only whether it is set
    is shown. A wrong or unknown setting is named, with exit code 1.

    [dim]Examples:[/dim]
      eventlib config
      eventlib config --json | jq 'select(.source != "default")'
    """
    before = Shared.of(context)
    log_options, given = LogOptions.of(context, app, log), Given(log or before.log, app or before.app)
    named = nearest(Path.cwd())[1]
    app_here = load_choreography(log_options.app) if log_options.app or named else None
    application, default_log = (app_here.settings, app_here.default_log) if app_here is not None else ((), None)
    found = settings_now(application, Given(given.log, given.app, named, default_log))
    if as_json:
        output.print_json(asdict(each) for each in found)
        return
    shown = output.table("setting", "value", "from", "means", whole=["from"])
    part = None
    for each in found:
        if each.part != part:
            shown.add_section()
            shown.add_row(Text(each.part, style="bold"))
            part = each.part
        shown.add_row(*_row(each))
    output.terminal().print(shown)


def _row(each: Setting) -> tuple[Text, ...]:
    value = Text(output.printable(as_text(each.value)))
    if each.source == "default":
        return Text(each.variable), value, Text(each.source, style="dim"), Text(each.meaning, style="dim")
    value.stylize("bold")
    if each.default not in {None, ""}:
        value.append(f"\ndefault: {as_text(each.default)}", style="not bold dim")
    return Text(each.variable, style="bold"), value, Text(each.source), Text(each.meaning, style="dim")
