"""All acts of operators."""

from typing import Any

from eventlib.operations.act import Act
from eventlib.operations.clock_reset import ClockReset
from eventlib.operations.erasure import Forget
from eventlib.operations.parked_acts import Discard, DiscardAll, Edit, Retry, RetryAll
from eventlib.operations.pause_acts import Pause, Resume
from eventlib.operations.rerun_acts import Drop, Rerun, Switch
from eventlib.operations.reset_acts import AcceptLoss, Reset
from eventlib.operations.sending import Send
from eventlib.operations.skip import Skip

ACTS: tuple[type[Act[Any, Any]], ...] = (
    RetryAll,
    DiscardAll,
    Retry,
    Edit,
    Discard,
    Pause,
    Resume,
    Skip,
    Reset,
    AcceptLoss,
    ClockReset,
    Rerun,
    Switch,
    Drop,
    Forget,
    Send,
)
