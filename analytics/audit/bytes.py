"""Checks that a log holds what was written: the one rule about bytes, which needs no application."""

from analytics.asking import in_thread
from analytics.audit.finding import Finding, Rule
from eventlib.ground.url import log_file
from eventlib.operations.doctor.deep import changed_archive, finding, prove_file
from eventlib.operations.doctor.finding import Diagnosis
from eventlib.operations.doctor.sameness import compare

DAMAGED = Rule("damaged", "error", "What stands on the log is what was written: no bit changed, no record gone.")


def damage_findings(url: str, same_as: str | None = None) -> list[Finding]:
    """Return the damage of an SQLite log, or of an archive; Kafka verifies batches when they are read.

    With `same_as` also the differences from another log, of which this one is a copy, a backup or an archive.
    Raises: LogCorrupt, LogVersionMismatch, LogUnavailable.
    """
    file, found = log_file(url), list[Diagnosis]()
    if url.startswith("archive:"):
        found += changed_archive(url)
    elif file is not None:
        found += [finding(each) for each in prove_file(file).damages]
    if same_as is not None:
        found += [each for each in in_thread(compare(url, same_as)) if each.verdict == "error"]
    return [
        Finding(DAMAGED.name, DAMAGED.severity, "", each.check, [], f"{each.what}; {each.remedy}") for each in found
    ]
