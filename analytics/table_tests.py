"""What has to hold in a table: of a row by itself, or of all rows together."""

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import functions as f

Value = str | int | float | bool


@dataclass(frozen=True)
class ColumnTest:
    """One thing that has to hold of a column.

    `kind` is dbt's name of it. `values` are those accepted; `text` is the other end of a relationship (`table.column`), or
    an SQL condition on the row.
    """

    kind: Literal["not_null", "unique", "accepted_values", "relationships", "holds"]
    values: tuple[Value, ...] = ()
    text: str = ""

    @property
    def name(self) -> str:
        """Its name in reports, with what tells it from others."""
        detail = self.text or ", ".join(map(str, self.values))
        return f"{self.kind}({detail})" if detail else self.kind

    def broken_by(self, column: str) -> Expression | None:
        """Return whether a row breaks it; None when one row cannot tell. NULL breaks only `not_null`."""
        match self.kind:
            case "not_null":
                return f.col(f"`{column}`").isNull()
            case "accepted_values":
                return ~f.col(f"`{column}`").isin(*self.values)
            case "holds":
                return ~f.expr(self.text)
            case _:
                return None


not_null = ColumnTest("not_null")
unique = ColumnTest("unique")


def accepted_values(*values: Value) -> ColumnTest:
    """Return the test that a column has only these values."""
    return ColumnTest("accepted_values", values=values)


def relationships(to: str) -> ColumnTest:
    """Return the test that each value is in another table's column, named as `table.column`."""
    return ColumnTest("relationships", text=to)


def holds(condition: str) -> ColumnTest:
    """Return the test that an SQL condition on the row is true or NULL, such as `quantity > 0`."""
    return ColumnTest("holds", text=condition)
