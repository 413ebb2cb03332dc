"""`eventlib acts`: who did what to running services, when, and why."""

from dataclasses import asdict
from typing import Annotated

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, SinceOption, option, run_on_log
from eventlib.index.acts import Act
from eventlib.operations.acts import acts as acts_on
from eventlib.operations.acts import in_lines
from eventlib.values import from_ms, iso, to_ms


def acts(
    log_options: LogOptions,
    by: Annotated[str | None, option("--by", "TEXT", "Only by those whose name has this text.")] = None,
    since: SinceOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what people did to running services: who, what, when and why.

    Events that were sent with a reason, retries, edits and discards of parked
    inputs, pauses, skips, resets, reruns and their switches. A name says where it comes
    from: os:ada is a user of the machine, token:ci a named token, oidc:… a
    subject of the identity provider. An act about many is one line; with --json
    each has its own, and they share `bulk`.

    [dim]Examples:[/dim]
      eventlib acts
      eventlib acts --by ada --since 2026-01-31T12:00:00Z
      eventlib acts --json
    """
    since_ms = 0 if since is None else to_ms(since)
    found = run_on_log(log_options, lambda log: acts_on(log, since_ms))
    wanted = [act for act in found if by is None or by.lower() in act.by.lower()]
    if as_json:
        output.print_json(_json(act) for act in wanted)
        return
    if not wanted:
        print("Nothing was done by hand.")
        return
    rows = [
        (
            output.readable(from_ms(line.act.at_ms)),
            line.act.by,
            line.act.what,
            f"{line.act.service}: {line.about}".removesuffix(": "),
            line.act.reason,
        )
        for line in in_lines(wanted)
    ]
    output.print_table(["at (UTC)", "by", "did", "to", "reason"], rows, whole=["at (UTC)", "by"])


def _json(act: Act) -> dict[str, object]:
    fields = asdict(act)
    return {"at": iso(from_ms(fields.pop("at_ms"))), **fields}
