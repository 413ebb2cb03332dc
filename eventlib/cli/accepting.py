"""`eventlib repair --accept-loss`: a log goes on without what it lost, as a person has decided."""

from contextlib import closing
from sqlite3 import Error

from eventlib.cli.backup import path_of
from eventlib.cli.output import counted
from eventlib.errors import WiringError
from eventlib.log.sqlite.errors import explained
from eventlib.log.sqlite.high_water import accept_loss
from eventlib.log.sqlite.schema import connect, prepare, refuse_cut_off


def print_accepted(url: str, reason: str) -> None:
    """Let a log go on without the records that are gone from its end, and print what that means."""
    path = path_of(url, "a log whose end is lost")
    if not path.is_file():
        raise WiringError(f"there is no log at {path}: name another with --log")
    try:
        refuse_cut_off(path)
        with closing(connect(path)) as connection:
            prepare(connection, path)
            loss = accept_loss(path, connection, reason)
    except Error as error:
        raise explained(error, path) from error
    print(
        f"{counted(loss.records, 'record')} that had been acknowledged are given up, which is recorded in {path}. The log has a "
        "new id: local stores, tables and views are made anew from it, and processes that have it open end; archive it to "
        "another directory. What the outside world was asked for in these records (charges, parcels) stands in its ledger only."
    )
