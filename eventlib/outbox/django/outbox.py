"""The outbox of a Django application."""

from collections.abc import Iterable

from django.db import connections

from eventlib.errors import WiringError
from eventlib.model.choreography import Choreography
from eventlib.model.event import Event
from eventlib.outbox.rows import INSERT_SQL, NAME, Outbox
from eventlib.publication import Publication


class DjangoOutbox(Outbox):
    """The outbox of an application that keeps its data by Django in PostgreSQL, in the database `using`.

    `puts` and `name` are as those of `SqlAlchemyOutbox`.
    Guarantee: as that of `SqlAlchemyOutbox`.
    """

    def __init__(
        self,
        choreography: Choreography,
        puts: Iterable[type[Event]] = (),
        *,
        name: str = NAME,
        using: str = "default",
    ) -> None:
        super().__init__(choreography, puts, name=name)
        self._using = using

    def put(self, *events: Event | Publication) -> None:
        """Put events within the transaction that is open, as `transaction.atomic()` opens one.

        Raises: ContractError, and nothing is put, for what `rows_of` refuses, and for what is not among `puts`; WiringError
        outside a transaction, and on another database than PostgreSQL.
        """
        connection = connections[self._using]
        if connection.vendor != "postgresql":
            raise WiringError(f"an outbox needs PostgreSQL, and this is {connection.vendor}")
        if not connection.in_atomic_block:
            raise WiringError("there is no transaction: put events within `with transaction.atomic():`")
        rows = self._rows(events)
        with connection.cursor() as cursor:
            cursor.executemany(INSERT_SQL, rows)
