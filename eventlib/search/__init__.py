"""Finding sagas: what events and states declare to be searchable, and an index that is asked in one query language.

It knows queries and the runtime's records. Begin with `saga_search`.
"""

from typing import TYPE_CHECKING

from eventlib.ground.facade import lazy

if TYPE_CHECKING:
    from eventlib.model.searchable import Searchable
    from eventlib.search.language import QueryError
    from eventlib.search.saga_search import SagaPage, SagaQuery, SagaSearch

__all__ = ["QueryError", "SagaPage", "SagaQuery", "SagaSearch", "Searchable"]

if not TYPE_CHECKING:  # a type checker would take it for a sign that any name is there
    __getattr__ = lazy(__name__)
