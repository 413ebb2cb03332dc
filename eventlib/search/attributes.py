"""What a query can name: the attributes of one kind of thing."""

from collections.abc import Iterable, Iterator

from eventlib.ground.arguments import did_you_mean
from eventlib.index.attributes import OF_SAGAS, Attribute, declared_in
from eventlib.model.choreography import Choreography
from eventlib.search.language import QueryError


class Catalogue:
    """The attributes of one kind of thing (`what`), by name."""

    def __init__(self, what: str, attributes: Iterable[Attribute]) -> None:
        self.what = what
        self._known = {each.name: each for each in attributes}

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self._known.values())

    def named(self, name: str, column: int) -> Attribute:
        """Return an attribute. Raises: QueryError, naming those that there are."""
        found = self._known.get(name)
        if found is None:
            meant = did_you_mean(name, self._known)
            raise QueryError(f"{self.what} have no {name!r}: {meant}they have {', '.join(sorted(self._known))}", column)
        return found

    def sorting(self, name: str, column: int) -> Attribute:
        """Return an attribute that can be ordered by. Raises: QueryError, naming those that can."""
        found = self.named(name, column)
        if not found.index:
            can = ", ".join(sorted(each.name for each in self if each.index))
            raise QueryError(f"{self.what} cannot be ordered by {name}: they can by {can}", column)
        return found


def sagas_of(choreography: Choreography) -> Catalogue:
    """Return what queries can name of a choreography's sagas. Raises: WiringError."""
    return Catalogue("sagas", [*OF_SAGAS, *(each.attribute for each in declared_in(choreography).values())])
