"""All acts of operators."""

from typing import Any

from eventlib.operations.act import Act
from eventlib.operations.parked_acts import Discard, DiscardAll, Edit, Retry, RetryAll
from eventlib.operations.pause_acts import Pause, Resume

ACTS: tuple[type[Act[Any, Any]], ...] = (RetryAll, DiscardAll, Retry, Edit, Discard, Pause, Resume)
