"""Ends of the application's functions that are not errors, and the one rule for them: they count as errors.

It holds for handlers, `evolve`, deadlines, partitioners, effects with their `otherwise`, and what opens ports. Only an end
that the runtime asked for is silent.
"""

from eventlib.errors import UnforeseenEnd


def as_error(raised: BaseException) -> Exception:
    """Return what a function of the application raised as an error, which parks its input or fails its attempt.

    An error is returned itself; whatever else ends a function (a cancellation that the runtime did not cause, a native
    library's panic, `SystemExit`, `GeneratorExit`, a group of those) as `UnforeseenEnd`.
    Raises: KeyboardInterrupt, with which a person ends the process.
    """
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, KeyboardInterrupt):
        raise raised
    from asyncio import CancelledError  # a service's import does not load asyncio

    name = type(raised).__name__
    is_cancelled = isinstance(raised, CancelledError)
    what = f"{name}, which the runtime did not cause" if is_cancelled else f"{name}: {raised}"
    return UnforeseenEnd(f"the function ended with {what}")


def is_asked_for(raised: BaseException) -> bool:
    """Tell whether what the running task raised is the end that was asked of it: it was cancelled, or is being closed."""
    from asyncio import CancelledError, current_task

    if isinstance(raised, CancelledError):
        task = current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(raised, GeneratorExit)
