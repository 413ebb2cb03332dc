"""Money for people: an amount in minor units in its currency's notation."""

from eventlib.values import decimals_of


def money(minor_units: int, currency: str) -> str:
    """Return an amount in full: `1,234.50 GBP`, `1,234 JPY`."""
    decimals = decimals_of(currency)
    whole, rest = divmod(abs(minor_units), 10**decimals)
    fraction = f".{rest:0{decimals}}" if decimals else ""
    return f"{'-' if minor_units < 0 else ''}{whole:,}{fraction} {currency}"


def short_money(minor_units: float, currency: str) -> str:
    """Return an amount for an axis, in major units: `1.2 M`, `350 k`, `12`."""
    return short(minor_units / 10 ** decimals_of(currency))


def short(number: float) -> str:
    """Return a number for an axis: `1.2 M`, `350 k`, `12`."""
    for size, sign in ((1e9, " bn"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{sign}"
    return f"{number:.3g}"
