"""Data's way stays short: who follows it reads few files."""

from tests.hops import from_post_to_completed, from_record_to_commit


async def test_a_record_reaches_its_commit_through_few_files() -> None:
    files = await from_record_to_commit()
    assert {"eventlib/runtime/processor.py", "eventlib/model/decider.py", "eventlib/log/sqlite/batch.py"} <= files
    assert len(files) <= 18, sorted(files)


async def test_an_order_is_completed_through_few_files() -> None:
    files = await from_post_to_completed()
    assert {"eventlib/http/requests.py", "services/payment/decider.py", "services/order/evolve.py"} <= files
    assert len(files) <= 48, sorted(files)
