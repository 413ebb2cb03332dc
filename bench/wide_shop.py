"""The shop as it is with 64 partitions for each of its topics; to be imported before any of its events is."""

from eventlib.model.topic import Topic

PARTITIONS = 64

# Topics are declared with the events, by name alone: what a name alone means is changed before the shop is loaded.
_eight, *_others = Topic.__init__.__defaults__ or ()
Topic.__init__.__defaults__ = (PARTITIONS, *_others)

from bench.instant_shop import shop  # noqa: E402
from eventlib.model.event import contract_of  # noqa: E402
from services.order.events import OrderPlaced  # noqa: E402

if contract_of(OrderPlaced).topic.partitions != PARTITIONS:
    raise ImportError("the shop was loaded before: import this first, in a process of its own")

__all__ = ["shop"]
