"""The peer: DBOS on its SQLite default, the same saga as a durable workflow; prints {"seconds", "cpu_s"} as JSON.

One step for each thing that the shop's services commit: place, reserve, charge, dispatch, ship, complete. The steps
do no work of their own, as the shop's gateway and carrier answer at once in this measurement.
"""

import json
import resource
import sys
import time
from pathlib import Path

from dbos import DBOS, DBOSConfig, SetWorkflowID


@DBOS.step()
def place(order_id: str) -> dict[str, object]:
    """Open the order."""
    return {"order_id": order_id, "lines": [{"sku": "A", "quantity": 1, "unit_price_cents": 250}], "amount_cents": 250}


@DBOS.step()
def reserve(order: dict[str, object]) -> str:
    """Set its units aside."""
    return f"reserved {order['order_id']}"


@DBOS.step()
def charge(order: dict[str, object]) -> str:
    """Take its amount."""
    return f"taken {order['amount_cents']}"


@DBOS.step()
def dispatch(order: dict[str, object]) -> str:
    """Hand it to the carrier."""
    return f"tracking {order['order_id']}"


@DBOS.step()
def ship(order: dict[str, object]) -> str:
    """Let its units leave the shelf."""
    return f"shipped {order['order_id']}"


@DBOS.step()
def complete(order: dict[str, object]) -> str:
    """End it."""
    return f"completed {order['order_id']}"


@DBOS.workflow()
def saga(order_id: str) -> str:
    """Run one order from its placement to its end."""
    order = place(order_id)
    reserve(order)
    charge(order)
    dispatch(order)
    ship(order)
    return complete(order)


def main(directory: Path, orders: int) -> None:
    """Run `orders` sagas and print how long they took."""
    config: DBOSConfig = {
        "name": "peer",
        "system_database_url": f"sqlite:///{directory}/dbos.db",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    saga("warm-up")
    cpu, began = _cpu_s(), time.perf_counter()
    handles = []
    for n in range(orders):
        with SetWorkflowID(f"order-{n}"):
            handles.append(DBOS.start_workflow(saga, str(n)))
    for handle in handles:
        handle.get_result()
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu_s": _cpu_s() - cpu}))
    DBOS.destroy()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
