"""`eventlib deployments`: which code the services were started with, of which revision, and when."""

from eventlib.cli._common import output
from eventlib.cli._common.options import JsonOption, LogOptions, run_on_log
from eventlib.operations.deployments import deployments as deployments_on


def deployments(log_options: LogOptions, as_json: JsonOption = False) -> None:
    """List which code the services were started with, and when.

    eventlib run records a deployment when a service starts with another version
    of the code, or another revision. The version is that of journals and of
    code_version in eventlib sagas list. What ran before the first record is
    not known here; the console derives it from the journals.

    [dim]Examples:[/dim]
      eventlib deployments
      eventlib deployments --json | jq .code_version
    """
    found = run_on_log(log_options, lambda log: deployments_on(log.port))
    if as_json:
        output.print_json(each.json() for each in found)
        return
    if not found:
        print("No deployment is recorded: eventlib run records the next one.")
        return
    rows = [
        (
            each.at,
            f"{each.code_version} again" if each.is_return else each.code_version,
            each.revision_shown or "not known",
            ", ".join(each.services),
            ", ".join(dict.fromkeys(part.host for part in each.parts)),
        )
        for each in found
    ]
    output.print_table(["at", "code", "revision", "services", "host"], rows, whole=["at", "code"], spare=["host"])
