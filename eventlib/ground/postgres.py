"""How this library connects to PostgreSQL."""

from typing import Any

from eventlib.errors import WiringError
from eventlib.ground.url import without_userinfo

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


def connection_to(url: str, application: str) -> tuple[str, dict[str, Any]]:
    """Return a database's name for messages, and the parameters of a connection to it.

    Raises: WiringError for what is no URL of PostgreSQL, and for one with a password.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    name = without_userinfo(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise WiringError(f"{name} is no address of PostgreSQL: give postgresql://USER@HOST/DATABASE") from error
    if "password" in given:
        raise WiringError(f"{name}: a URL is shown in lists of processes; set PGPASSWORD, or use ~/.pgpass")
    return name, {**CONNECTS, "application_name": application, **given}
