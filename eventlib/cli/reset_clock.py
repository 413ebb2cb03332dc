"""`eventlib reset-clock`: brings tasks back whose time a wrong clock has set ahead."""

from eventlib.cli._common.act_command import act_command
from eventlib.cli._common.output import counted, printable
from eventlib.operations.clock_reset import ClockOutcome, ClockReset
from eventlib.values import from_ms

_SHOWN = 20


@act_command(ClockReset, question="Reset the clock of these tasks of {service}?")
def reset_clock(done: ClockOutcome) -> None:
    """Bring tasks back whose time a wrong clock has set ahead.

    A record from the future, taken up by a release without a bound, dates all
    that its task does later. From the reset on it is dated by the clock again,
    in the same order; the service may run or not. Begin upstream, and reset the
    other tasks that are named too: what they emit is parked as dated ahead.
    Deadlines that follow from states of that time stay as they are, and are
    listed with when they fall due.

    [dim]Examples:[/dim]
      eventlib reset-clock payment --dry-run
      eventlib reset-clock payment --reason "the gateway's clock was ahead"
    """
    if not done.token:
        tasks = counted(len(done.plans), "task")
        services = ", ".join(dict.fromkeys(plan.service for plan in done.plans))
        print(f"Done, and recorded: {tasks} of {services} {'go' if len(done.plans) != 1 else 'goes'} on now.")
        return
    for plan in done.plans:
        print(
            f"{plan.service}/{plan.partition} is at {_at(plan.last_ms)}, ahead since {_at(plan.first_ms)}: "
            f"{counted(plan.transactions, 'transaction')}; it would go on now."
        )
        for late in plan.late[:_SHOWN]:
            print(f"  {late.decider} {printable(late.key)}: {late.name} stays due at {_at(late.due_ms)}")
        if len(plan.late) > _SHOWN:
            print(f"  and {len(plan.late) - _SHOWN:,} deadlines more")
    for name, at_ms in done.infected:
        print(f"{name} is ahead too, at {_at(at_ms)}: until it is reset, what it emits is parked where it is read.")


def _at(at_ms: int) -> str:
    return f"{from_ms(at_ms):%Y-%m-%d %H:%M:%S} UTC"
