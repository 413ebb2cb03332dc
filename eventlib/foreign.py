"""The name of `eventlib.external` in earlier releases."""

raise ImportError(
    "eventlib.foreign has another name now: write `from eventlib.external import Json` for the same class"
)
