"""`eventlib webhook`: delivers events to subscribers by HTTP."""

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated

from eventlib.cli._common.connectors import (
    SHOWN,
    FileOption,
    NameArgument,
    file_of,
    on_log,
    print_rights,
    show_status,
    subscriber_of,
)
from eventlib.cli._common.metrics import Work, webhooks_snapshot, work_until_stopped
from eventlib.cli._common.options import AppOnly, JsonOption, LogOptions, MetricsOption, argument, option
from eventlib.cli._common.output import counted
from eventlib.cli._common.prompts import YesOption, agree
from eventlib.cli._common.typer_ext import group
from eventlib.eventlog import EventLog
from eventlib.ground.variables import read_settings
from eventlib.log.kafka.options import KafkaOptions
from eventlib.model.project import load_choreography
from eventlib.sinks.consuming import Status
from eventlib.webhooks import acts
from eventlib.webhooks.subscribers import read_subscribers

if TYPE_CHECKING:
    from eventlib.telemetry.recorder import Recorder

webhook = group("Deliver events to subscribers by HTTP, signed, those of a key in order.")


@webhook.command()
def run(
    log_options: LogOptions,
    subscribers: FileOption = None,
    metrics_port: MetricsOption = None,
) -> None:
    """Deliver events until stopped: each at least once, those of a key in their order.

    Several processes take over from one another. A delivery that fails is tried
    again with growing pauses, then parked, and later ones of its topic and key
    wait for it: `eventlib webhook status`. The file is read again when it changes.

    [dim]Examples:[/dim]
      eventlib webhook run --subscribers webhooks.toml
    """
    path = file_of(subscribers)
    personal = any(each.personal for each in read_subscribers(path).values())

    from eventlib.webhooks.running import WebhookRunner

    def begin(_: AsyncExitStack, opened: EventLog, recorder: "Recorder | None") -> Work:
        observe = (lambda _: None) if recorder is None else recorder.delivered
        work = WebhookRunner(opened, path, personal=personal, observe=observe)
        begins = f"Delivering events of {log_options.url} to {counted(len(work.subscribers), 'subscriber')} of {path}"
        see = partial(webhooks_snapshot, work, opened)
        return Work(work.run, see, begins, lambda: f"delivered {counted(work.delivered, 'event')}")

    choreography = load_choreography(log_options.app)
    work_until_stopped(log_options.url, choreography, "webhooks", "webhook", metrics_port, begin, personal=personal)


@webhook.command()
def status(
    log_options: LogOptions,
    subscribers: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far each subscriber is, and which deliveries fail and why.

    [dim]Examples:[/dim]
      eventlib webhook status --subscribers webhooks.toml
    """
    found = read_subscribers(file_of(subscribers))

    async def looked(opened: EventLog) -> list[Status]:
        return [await acts.status(opened, each, SHOWN) for each in found.values()]

    show_status(on_log(log_options, looked, read_only=True), as_json=as_json)


@webhook.command()
def retry(
    log_options: LogOptions,
    name: NameArgument,
    delivery: Annotated[str | None, argument("[ID]", "A parked delivery; without one, all.")] = None,
    subscribers: FileOption = None,
) -> None:
    """Let parked deliveries be sent again at once, with all their attempts.

    [dim]Examples:[/dim]
      eventlib webhook retry billing
      eventlib webhook retry billing orders/3/17
    """
    subscriber_of(subscribers, name)
    done = on_log(log_options, lambda opened: acts.retry(opened, name, delivery))
    print(f"{counted(done, 'event')} will be tried again, and those that wait behind.")


@webhook.command()
def discard(
    log_options: LogOptions,
    name: NameArgument,
    delivery: Annotated[str, argument("ID", "A parked delivery.")],
    subscribers: FileOption = None,
) -> None:
    """Give up a parked delivery, so that those behind it go on.

    [dim]Examples:[/dim]
      eventlib webhook discard billing orders/3/17
    """
    subscriber_of(subscribers, name)
    on_log(log_options, lambda opened: acts.discard(opened, name, delivery))
    print(f"{delivery} will not be delivered to {name}; those that wait behind will.")


@webhook.command()
def replay(
    log_options: LogOptions,
    name: NameArgument,
    since: Annotated[str, option("--from", "START", "earliest, latest, or a time (UTC).")],
    yes: YesOption = False,
    subscribers: FileOption = None,
) -> None:
    """Deliver events again from a time on, each with the id that it had.

    [dim]Examples:[/dim]
      eventlib webhook replay billing --from 2026-01-31T12:00:00Z
    """
    found = subscriber_of(subscribers, name)
    agree(f"Deliver events to {found.name} again, from {since} on?", yes=yes)
    records = on_log(log_options, lambda opened: acts.replay(opened, found, since))
    print(f"{name} gets what it asks for of {counted(records, 'record')}.")


@webhook.command()
def enable(
    log_options: LogOptions,
    name: NameArgument,
    subscribers: FileOption = None,
) -> None:
    """Deliver again to a subscriber whose endpoint answered 410 Gone.

    [dim]Examples:[/dim]
      eventlib webhook enable billing
    """
    subscriber_of(subscribers, name)
    on_log(log_options, lambda opened: acts.enable(opened, name))
    print(f"{name} gets events again, from where it was.")


@webhook.command()
def rights(log_options: AppOnly, subscribers: FileOption = None) -> None:
    """Print a script that gives the deliverer's user its rights on a Kafka cluster.

    [dim]Examples:[/dim]
      eventlib webhook rights --subscribers webhooks.toml > rights.sh
    """
    from eventlib.manifests.connectors import webhook_program

    choreography = load_choreography(log_options.app)
    found = read_subscribers(file_of(subscribers))
    print_rights(webhook_program(found, choreography, "", read_settings(KafkaOptions, {})))
