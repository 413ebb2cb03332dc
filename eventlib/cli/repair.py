"""`eventlib repair`: writes back what can be proved."""

from dataclasses import asdict

from rich.text import Text

from eventlib.cli import output
from eventlib.cli.options import LogOptions
from eventlib.errors import WiringError
from eventlib.log.url import log_file
from eventlib.operations.doctor.deep import finding
from eventlib.operations.doctor.repair import Repaired, repair_file


def repair_log(place: LogOptions, *, dry_run: bool, seals: bool, as_json: bool) -> int:
    """Repair a log, print what was done and what is left, and return the exit code: 1 when something is left."""
    path = log_file(place.url)
    if path is None:
        raise WiringError(
            f"{place.url} is not in a file of this machine: Kafka repairs itself from its replicas; an archive is made anew "
            "from its log (`python -m analytics archive`)"
        )
    if not path.is_file():
        raise WiringError(f"there is no log at {path}: name one with --log")
    with output.records_bar("verifying", quiet=as_json) as bar:
        found = repair_file(path, dry_run=dry_run, seals=seals, progress=lambda more: bar(more, None))
    if as_json:
        output.print_json([_as_json(found, dry_run=dry_run)])
    else:
        _print(found, dry_run=dry_run)
    return 1 if found.left or (dry_run and found.done) else 0


def _as_json(found: Repaired, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "repaired": [asdict(finding(each)) for each in found.done],
        "left": [asdict(finding(each)) for each in found.left],
        "sealed": found.sealed,
        "unsealed": found.unsealed,
        "kept": None if found.kept is None else str(found.kept),
    }


def _print(found: Repaired, *, dry_run: bool) -> None:
    shown = output.table("", "what is so", whole=[""])
    for verdict, style, damages in (
        ("can be repaired" if dry_run else "repaired", "green", found.done),
        ("left", "red", found.left),
    ):
        for each in damages:
            shown.add_row(Text(verdict, style=style), output.printable(finding(each).what))
    console = output.terminal()
    if found.done or found.left:
        console.print(shown)
    would = "would be " if dry_run else ""
    counts = [f"{len(found.done)} {would}repaired, {len(found.left)} left"]
    if found.sealed:
        counts.append(f"{output.counted(found.sealed, 'record')} {would}sealed")
    elif found.unsealed:
        counts.append(f"{output.counted(found.unsealed, 'record')} of an older release without a checksum (--seal)")
    print(f"{'; '.join(counts)}.")
    if found.kept is not None:
        print(f"The file as it was is {found.kept}.")
