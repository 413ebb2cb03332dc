"""The outputs of one time by what emitted them, until the input that they answer claims them."""

from collections.abc import Sequence

from eventlib.model.identity import derived_id
from eventlib.replay.partition_buffer import Buffered

EmissionKey = tuple[str | None, str | None, str | None]
"""What emitted an event: decider (`service/decider`), key, and causation id."""


def claimed(
    outputs: dict[EmissionKey, list[Buffered]], by: EmissionKey, cause_id: str, decider: str
) -> Sequence[Buffered]:
    """Remove and return the outputs of a cause, in their order: by their ids, which derive from the cause."""
    emitted = outputs.get(by)
    if emitted is None:
        return _NOTHING
    key = by[1] or ""
    if len(emitted) == 1 and emitted[0].record.id == derived_id(cause_id, decider, key, 0):
        del outputs[by]
        return emitted
    left = {item.record.event_id: item for item in emitted}
    found = list[Buffered]()
    while (item := left.pop(derived_id(cause_id, decider, key, len(found)), None)) is not None:
        found.append(item)
    if left:
        outputs[by] = [*left.values()]
    else:
        del outputs[by]
    return found


_NOTHING: Sequence[Buffered] = ()
