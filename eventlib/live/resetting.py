"""Live views begin anew: their positions, tables and topics go, and all is computed again from the log."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from eventlib.live.app import LiveApp
from eventlib.log.kafka.consumer_groups import forget_group
from eventlib.log.open import open_port


async def reset_views(app: LiveApp) -> Sequence[str]:
    """Forget what a service's views have computed, and return the names of the topics that went.

    What they have told others (alerts, derived topics) stays, and is told again under the same ids. Tables on other
    machines are told from those of now by their changelogs, and dropped there.
    They are made anew, empty: who runs views need not have the right to.
    Raises: ContractError while the views run; LogUnavailable, LogDenied.
    """
    await forget_group(app.connection.url, app.connection.options.group(app.viewing.group))
    port = await open_port(app.connection.url)
    try:
        there = await port.topics()
        names = [topic.name for topic in app.own_topics() if topic.name in there]
        await port.delete_topics(names)
        await port.create_topics(app.own_topics())
        _drop_tables(app.directory(port.log_id).parent, app.of)
    finally:
        await port.close()
    return names


def _drop_tables(directory: Path, service: str) -> None:
    for found in directory.glob(f"{service}-*"):
        shutil.rmtree(found)
