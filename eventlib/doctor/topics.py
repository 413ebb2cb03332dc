"""Topics: as they are on the log, against their declarations."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from eventlib.doctor.diagnosis import Diagnosis, error, fine, some, warning
from eventlib.errors import TopicMismatch
from eventlib.log.rules import refuse_mismatch
from eventlib.topic import Topic

_FIXED = {"name", "partitions", "partitioner"}


def examine_topics(there: Mapping[str, Topic], declared: Sequence[Topic]) -> list[Diagnosis]:
    """Compare what is on a log with what a choreography declares."""
    found = list[Diagnosis]()
    for topic in declared:
        if topic.name in there:
            found += _compare(there[topic.name], topic)
    missing = [topic.name for topic in declared if topic.name not in there]
    if missing and len(missing) < len(declared):
        found.append(
            warning("topics", f"not on the log yet: {some(missing)}", "the services create them at their next start")
        )
    elif missing:
        found.append(fine("topics", f"none of the {len(declared)} is on the log yet; `eventlib run` creates them"))
    return found or [fine("topics", f"all {len(declared)} are as the choreography declares them")]


def _compare(there: Topic, declared: Topic) -> list[Diagnosis]:
    try:
        refuse_mismatch(there, declared)
    except TopicMismatch as mismatch:
        what, _, remedy = str(mismatch).partition(". ")
        return [error("topics", what, remedy)]
    differ = [
        f"{field.name} is {getattr(there, field.name)}, declared {getattr(declared, field.name)}"
        for field in fields(Topic)
        if field.name not in _FIXED and getattr(there, field.name) != getattr(declared, field.name)
    ]
    if not differ:
        return []
    return [
        warning(
            "topics",
            f"topic {declared.name!r}: {'; '.join(differ)}",
            "the services set it as it is declared, at their next start; change the declaration to keep it",
        )
    ]
