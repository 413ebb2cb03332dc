"""How an HTTP API behaves under load."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ApiConfig:
    """The defaults suit one machine.

    `backlog` is how much work may wait for the service before new requests are refused: a request counts as 1, or as
    the `work` that it is accepted with (of an order its lines). `work_rate` is how much work a second each caller may
    ask for on each route, `work_burst` how much at once; 0: no limit. `streams_per_caller` bounds the event streams
    that a caller has open. `decision_s` is how long an answer waits for its decision, `append_s` how long for the log, `longest_wait_s` bounds `Prefer: wait`.
    `index_age_s` is how old the index may be before `/readyz` and lists are refused. `body_bytes` is the largest body; an
    event has to hold what it says. `heartbeat_s` keeps quiet streams open. `idempotency_s` is how long an idempotency key counts (None: as long as its request is
    on the log); after that it begins something new.
    """

    backlog: int = 10_000
    decision_s: float = 5.0
    append_s: float = 5.0
    longest_wait_s: float = 60.0
    index_age_s: float = 10.0
    body_bytes: int = 900_000
    heartbeat_s: float = 15.0
    idempotency_s: float | None = None
    work_rate: float = 0.0
    work_burst: int = 10_000
    streams_per_caller: int = 100
