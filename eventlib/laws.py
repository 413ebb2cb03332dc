"""The name of `eventlib.invariants` in earlier releases."""

raise ImportError(
    "eventlib.laws has another name now: write `from eventlib.invariants import invariant, Fold, ExternalState` "
    "for law, Fold, Outside, and `Choreography(invariants=…)` for `laws=`"
)
