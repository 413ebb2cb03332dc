"""What a decider has heard of a saga and not yet answered: when it speaks, its span is linked to that."""

from collections import OrderedDict

from opentelemetry.trace import Link

from eventlib.identity import is_sampled
from eventlib.runtime.hop import Hop
from eventlib.telemetry.spans import context_of

_MOST_KEYS = 10_000
_MOST_LINKS = 64


class Joins:
    """Remembers, for each decider and key, the events of one trace that it handled and said nothing to.

    In bounded memory, and only what this process has handled itself: a task that moves leaves some links out.
    """

    def __init__(self) -> None:
        self._heard: OrderedDict[tuple[str, str, str], list[str]] = OrderedDict()

    def links(self, hop: Hop) -> list[Link]:
        """Take a hop in, and return what led to it beside the event that it handled."""
        if hop.context is None or hop.failure:
            return []
        name = hop.decider, hop.key, hop.context[3:35]
        if hop.said:
            return [Link(context_of(each)) for each in self._heard.pop(name, ())]
        if hop.record is not None and hop.record.traceparent and is_sampled(hop.context):
            heard = self._heard.setdefault(name, [])
            heard.append(hop.record.traceparent)
            del heard[:-_MOST_LINKS]
            if len(self._heard) > _MOST_KEYS:
                self._heard.popitem(last=False)
        return []
