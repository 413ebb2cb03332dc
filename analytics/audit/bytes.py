"""Whether what stands on a log is what was written: the one rule that looks at bytes, and needs no application."""

from analytics.audit.finding import Finding, Rule
from eventlib.doctor.deep import changed_archive, finding, prove_file
from eventlib.urls import log_file

DAMAGED = Rule("damaged", "error", "What stands on the log is what was written: no bit changed, no record gone.")


def damage_findings(url: str) -> list[Finding]:
    """Return what of an SQLite log, or of an archive, is not what was written; Kafka verifies batches when they are read.

    Raises: LogCorrupt, LogVersionMismatch, LogUnavailable.
    """
    file = log_file(url)
    if url.startswith("archive:"):
        found = changed_archive(url)
    elif file is not None:
        found = [finding(each) for each in prove_file(file).damages]
    else:
        return []
    return [
        Finding(DAMAGED.name, DAMAGED.severity, "", each.check, [], f"{each.what}; {each.remedy}") for each in found
    ]
