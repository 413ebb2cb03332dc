"""The columns of the list of sagas: which ones there are to choose, and amounts as money."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from eventlib.console.rendering import path_of
from eventlib.errors import ContractError
from eventlib.ground.arguments import did_you_mean
from eventlib.index.attributes import Attribute, declared_in
from eventlib.search.saga_search import SagaQuery, SagaSearch
from eventlib.values import decimals_of

_USUAL = ("status", "waiting_for", "reason", "started_at", "duration", "steps")
_HEADS = {"waiting_for": "Waits for", "started_at": "Started", "duration": "Took", "steps": "Events"}
_NUMBERS = {"integer", "number", "decimal", "duration"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its attribute, its head for people, where a click on that leads, and the order that it has now."""

    attribute: Attribute
    link: str = ""
    direction: str = ""

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.attribute.name

    @property
    def head(self) -> str:
        """The name as people read it, without the `_cents` of an amount, which is shown as money."""
        name = self.name.removesuffix("_cents") if self.attribute.currency else self.name
        return _HEADS.get(self.name, name.replace("_", " ").capitalize())

    @property
    def is_number(self) -> bool:
        """Whether its values are aligned by their last digits."""
        return self.attribute.kind.type in _NUMBERS

    def money(self, saga: Mapping[str, Any]) -> str:
        """Return a saga's amount with its currency, with as many decimals as ISO 4217 says."""
        amount, currency = saga[self.name], saga[self.attribute.currency]
        if amount is None or currency is None:
            return "–" if amount is None else f"{amount:,}"  # noqa: RUF001  a dash for what is not there
        decimals = decimals_of(currency)
        if self.attribute.kind.type == "integer":
            return f"{Decimal(amount).scaleb(-decimals):,.{decimals}f} {currency}"
        own = -int(Decimal(amount).normalize().as_tuple().exponent)
        return f"{amount:,.{max(decimals, own)}f} {currency}"


class Columns:
    """The columns that a list of sagas can have: each attribute with one value, and what a saga waits for."""

    def __init__(self, search: SagaSearch) -> None:
        self.known = {
            each.name: each
            for each in search.catalogue
            if each.name != "saga" and (not each.of or each.name == "waiting_for")
        }
        declared = [name for name in declared_in(search.log.choreography) if name in self.known]
        currencies = {each.currency for each in self.known.values()}
        self.usual = (*_USUAL, *(name for name in declared if name not in currencies))

    def chosen(self, names: Sequence[str], query: SagaQuery) -> list[Column]:
        """Return the columns of these names, by default the usual ones. Raises: ContractError for an unknown name."""
        for name in names:
            if name not in self.known:
                raise ContractError(
                    f"the list has not the column {name!r}: {did_you_mean(name, self.known)}see Columns"
                )
        by, _, direction = query.order_by.partition(" ")
        columns = list[Column]()
        for name in dict.fromkeys(names or self.usual):
            attribute = self.known[name]
            other = "asc" if name == by and direction == "desc" else "desc"
            order = {"where": query.where, "order_by": f"{name} {other}", "limit": query.limit, "column": [*names]}
            now = ("descending" if direction == "desc" else "ascending") if name == by else ""
            columns.append(Column(attribute, path_of("sagas", **order) if attribute.index else "", now))
        return columns
