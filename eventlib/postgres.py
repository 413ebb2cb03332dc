"""How this library connects to PostgreSQL."""

CONNECTS: dict[str, str | int] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,  # milliseconds until a server that acknowledges nothing is given up
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "target_session_attrs": "read-write",  # a standby's answers may be old
}
"""Parameters of a connection, where its URL does not give them."""

ANSWERS_S = 10.0
"""How long an answer may take, before the connection is given up: libpq would wait without an end."""
