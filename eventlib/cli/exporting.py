"""`eventlib export`: the contracts, and what watches them run, in the forms that others work with."""

from collections.abc import Callable
from pathlib import Path

from eventlib.cli import output
from eventlib.cli.live import declared_views
from eventlib.cli.options import LogOptions
from eventlib.cli.project import load_choreography
from eventlib.config.effective import reference as settings_reference
from eventlib.contracts.exporting import exported
from eventlib.errors import WiringError
from eventlib.manifests.exporters import for_kubernetes, for_strimzi, for_tools
from eventlib.model.choreography import Choreography
from eventlib.telemetry.alerts import alert_rules
from eventlib.telemetry.catalogue import reference
from eventlib.telemetry.dashboards import dashboards


def print_export(place: LogOptions, form: str, names: list[str], out: Path | None, *, as_json: bool) -> None:
    """Print a form's files, or write them into a directory."""
    files = _files(load_choreography(place.app), form)
    if names:
        chosen = {file: text for file, text in files.items() if file.partition(".")[0] in names}
        if missing := set(names) - {file.partition(".")[0] for file in chosen}:
            raise WiringError(f"there is no {', '.join(sorted(missing))} to export as {form}")
        files = chosen
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (out / file).write_text(text, encoding="utf-8")
        output.terminal().print(f"{output.counted(len(files), 'file')} in {out}.")
    elif as_json:
        output.print_json({"file": file, "text": text} for file, text in files.items())
    else:
        output.write_lines(text.rstrip("\n").encode() for text in files.values())


def _files(choreography: Choreography, form: str) -> dict[str, str]:
    makers: dict[str, Callable[[], dict[str, str]]] = {
        "dashboards": dashboards,
        "alerts": lambda: {f"{choreography.name}-alerts.yml": alert_rules(choreography)},
        "metrics": lambda: {"metrics.md": reference()},
        "settings": lambda: {"settings.md": settings_reference(choreography.settings)},
        "strimzi": lambda: for_strimzi(choreography, declared_views(choreography)),
        "kubernetes": lambda: for_kubernetes(choreography, declared_views(choreography)),
        "kafka": lambda: for_tools(choreography, declared_views(choreography)),
    }
    return makers[form]() if form in makers else exported(choreography, form)
