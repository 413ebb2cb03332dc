"""Records a log whose journal says that inputs were gone before they were read: `python -m tests.golden.losses.record`.

Retention has dropped five events of `heard` that the service had not read; three more were handled behind them.
"""

import asyncio
import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from eventlib import open_log
from tests.integration.test_losses import APP, hear, settle

LOG = Path(__file__).parent / "log.db.gz"


async def record() -> None:
    """Write the log."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "log.db"
        async with open_log(f"sqlite:///{path}", APP) as log:
            await settle(log)
            await hear(log, 5, ago=True)
            await log.port.compact()
            await hear(log, 3)
            await settle(log)
        LOG.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def unpacked(directory: Path) -> str:
    """Put the log into a directory, and return its URL."""
    (directory / "log.db").write_bytes(gzip.decompress(LOG.read_bytes()))
    return f"sqlite:///{directory / 'log.db'}"


if __name__ == "__main__":
    asyncio.run(record())
