"""One process's copy of the small tables of an SQLite log: its topics, its partitions' ends, and its owners."""

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventlib.errors import LogCorrupt
from eventlib.log.base import TopicPartition
from eventlib.log.rules import known
from eventlib.log.sqlite.errors import REPAIR
from eventlib.log.sqlite.sealed import owner_rows, partition_rows, topic_rows, write_partitions
from eventlib.log.sqlite.state import Listeners, OwnerRow, PartitionState, topic_of
from eventlib.model.topic import Topic

_UNKNOWN = -(1 << 62)


class SmallTables:
    """A copy of the small tables, as of when it was last learned from the file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.listeners = Listeners()
        self.topics: Mapping[str, Topic] = {}
        self.partitions = dict[TopicPartition, PartitionState]()
        self.owners: Mapping[tuple[str, int], OwnerRow] = {}
        self.others_appended_at = float("-inf")
        self.offsets = 0
        """How many offsets all partitions have assigned; far below zero when that is unknown."""
        self._topic_rows: list[tuple[Any, ...]] = []
        self._numbers = dict[int, PartitionState]()

    def learn(self, *, by_others: bool) -> None:
        """Reload all of them, and notify the listeners; `by_others`: what has changed was another process's doing.

        Raises: sqlite3.Error.
        """
        self.learn_topics()
        moved, offsets = set[TopicPartition](), 0
        for (number, _, _, *row), damage in partition_rows(self.connection):
            offsets += _UNKNOWN if damage else row[0]
            state = self._numbers.get(number)
            if state is None or (state.topic.name, state.partition) not in self.partitions:
                continue  # its topic was deleted
            state.damage = damage
            if damage:
                continue
            if state.end != row[0]:
                moved.add((state.topic.name, state.partition))
            state.learn(row)
        self.offsets = offsets
        if moved and by_others:
            self.others_appended_at = asyncio.get_running_loop().time()
        self.learn_owners()
        for listener in self.listeners.appended if moved else ():
            listener(moved)

    def learn_topics(self) -> None:
        """Reload the topics. Raises: sqlite3.Error."""
        rows = topic_rows(self.connection)
        if rows == self._topic_rows:
            return
        self.topics = {row[0]: topic_of(row) for row in rows}
        found = [(damage, row[:3]) for row, damage in partition_rows(self.connection)]
        sound = {(name, partition) for damage, (_, name, partition) in found if not damage}
        self.partitions = {key: state for key, state in self.partitions.items() if key[0] in self.topics}
        for damage, (number, name, partition) in found:
            topic = self.topics.get(name)
            if topic is None:
                continue  # it was deleted; its partitions' ends stay, so that no offset is reused
            if damage and ((name, partition) in sound or partition not in range(topic.partitions)):
                continue  # not the topic of the row
            state = self._numbers.setdefault(number, PartitionState(topic, partition, number))
            state.topic, state.max_event_bytes = topic, topic.max_event_bytes
            self.partitions[name, partition] = state
        self._topic_rows = rows

    def count_again(self, topic: str) -> None:
        """Make upkeep recount a topic: its counts hold only for the settings under which they were made.

        Called in a write transaction. Raises: sqlite3.Error.
        """
        states = [state for state in self.partitions.values() if state.topic.name == topic]
        for state in states:
            state.clean_to = state.kept = state.kept_bytes = 0
        write_partitions(self.connection, states)

    def learn_owners(self) -> None:
        """Reload the owners, and notify the listeners of a change. Raises: sqlite3.Error."""
        owners = owner_rows(self.connection)
        if owners != self.owners:
            self.owners = owners
            for listener in self.listeners.owners_changed:
                listener()

    def partition(self, topic: str, partition: int) -> PartitionState:
        """Return the cached state of a partition. Raises: ContractError when it does not exist."""
        state = self.partitions.get((topic, partition))
        if state is None:
            known(self.topics, topic, partition)
            why = "table partitions has no readable row for it"
            raise LogCorrupt(f"{topic}/{partition} of the log {self.path} is damaged: {why}; {REPAIR}")
        if state.damage:
            raise LogCorrupt(f"{topic}/{partition} of the log {self.path} is damaged: {state.damage}; {REPAIR}")
        return state
