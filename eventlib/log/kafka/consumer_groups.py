"""Consumer groups that are not the services' own: forgetting how far one has come."""

from aiokafka.protocol.admin import DeleteGroupsRequest

from eventlib.errors import ContractError
from eventlib.log.kafka.cluster import GROUP, starting
from eventlib.log.kafka.failures import STALE_COORDINATOR, Code, failure


async def forget_group(url: str, group: str) -> None:
    """Delete a consumer group's positions; one that there is not is fine.

    Raises: ContractError when members of it are running; WiringError, LogUnavailable, LogDenied.
    """
    async with starting(url) as cluster:

        async def attempt() -> int:
            node = await cluster.coordinator(GROUP, group)
            answer = await cluster.send(node, DeleteGroupsRequest([group]), "ask")
            code: int = answer.results[0][1]
            if code in STALE_COORDINATOR:
                cluster.forget_coordinator(GROUP, group)
                raise failure(code, f"deleting the group {group}")
            return code

        code = await cluster.persist(attempt, cluster.options.request_timeout_s)
        await cluster.close()
    if code == Code.NON_EMPTY_GROUP:
        raise ContractError(
            f"members of the group {group} are running: stop them first; one that died counts for a while"
        )
    if code not in {Code.NONE, Code.GROUP_ID_NOT_FOUND}:
        raise failure(code, f"deleting the group {group}")
