"""Topics and rights as commands of Kafka's own tools, for clusters that nobody runs an operator for."""

from collections.abc import Iterable, Iterator
from shlex import join

from eventlib.deploying.rights import Right, User
from eventlib.deploying.topics import Wanted

_SERVER = '--bootstrap-server "$BOOTSTRAP" --command-config "$CONFIG"'
HEAD = '#!/bin/sh\n# BOOTSTRAP is host:port, CONFIG a file of client properties for a user who may do this.\nset -eu\n: "${BOOTSTRAP:?}" "${CONFIG:?}"\n'


def topic_commands(topics: Iterable[Wanted]) -> Iterator[str]:
    """Return a `kafka-topics.sh` for each topic; run again, they change nothing."""
    for topic in topics:
        counts = ["--partitions", str(topic.partitions), "--replication-factor", str(topic.replicas)]
        configs = [part for each in sorted(topic.configs.items()) for part in ("--config", "=".join(each))]
        what = join(["--create", "--if-not-exists", "--topic", topic.name, *counts, *configs])
        yield f"kafka-topics.sh {_SERVER} {what}"


def right_commands(users: Iterable[User]) -> Iterator[str]:
    """Return a `kafka-acls.sh` for each right of each user; run again, they change nothing."""
    for user in users:
        yield f"# {user.name}: {user.about}"
        for right in user.rights:
            yield f"kafka-acls.sh {_SERVER} {join(right_arguments(user.name, right))}"


def right_arguments(user: str, right: Right) -> list[str]:
    """Return the arguments with which `kafka-acls.sh` gives a user a right."""
    operations = [part for operation in right.operations for part in ("--operation", operation.value)]
    pattern = ["--resource-pattern-type", "prefixed"] if right.is_prefix else []
    what = [f"--{right.kind.value}", right.name, *pattern]
    return ["--add", "--force", "--allow-principal", f"User:{user}", *operations, *what]
