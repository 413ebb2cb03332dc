"""Records that a log has dropped: without them, tables would be wrong without a warning."""

from collections.abc import Mapping, Sequence

from eventlib.log.archive.files import Lost, read_manifest
from eventlib.log.archive.place import SCHEME, place_of
from eventlib.log.base import TopicPartition


def dropped_of(
    url: str,
    there: Mapping[TopicPartition, range],
    begin: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[Lost]:
    """Return the selected records that the log no longer has; an archive's manifest names those dropped before it."""
    if url.startswith(SCHEME):
        gone = [each for each in read_manifest(place_of(url)).lost if (each.topic, each.partition) in there]
    else:
        gone = [Lost(topic=p[0], partition=p[1], first=begin[p], end=span.start) for p, span in there.items()]
    asked = [(each, begin[each.topic, each.partition], ends[each.topic, each.partition]) for each in gone]
    cut = [each.model_copy(update={"first": max(each.first, b), "end": min(each.end, e)}) for each, b, e in asked]
    return [each for each in cut if each.first < each.end]


def incomplete(url: str, dropped: Sequence[Lost]) -> str:
    """Return a message about them, with the remedy."""
    first = dropped[0]
    more = f", and of {len(dropped) - 1} more partitions" if len(dropped) > 1 else ""
    return (
        f"{url} has dropped {first.topic}/{first.partition} from {first.first} to {first.end}{more}: tables of what is left "
        "are incomplete; rebuild from an archive that has it (--log archive:DIR), from which the log then continues, or use "
        "what is left with --incomplete"
    )
