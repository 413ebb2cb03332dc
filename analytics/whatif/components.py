"""Independent parts of a log: sagas that share no key with others can be played beside each other.

A key's state is one decider's memory of all sagas that came to it: a shelf joins all orders that wanted its product.
So sagas that share a key, directly or through others, belong together; the rest is free.
"""

from collections import Counter
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analytics.audit.application import Application
from analytics.audit.routing import by_value
from eventlib.model.event import contract_of


def with_parts(records: DataFrame, application: Application, parts: int) -> tuple[DataFrame, int]:
    """Return records with the column `part`, and how many parts there are: as many as are independent, `parts` at most."""
    if parts < 2:  # noqa: PLR2004  nothing to divide
        return records.withColumn("part", f.lit(0)), 1
    contracts = [contract_of(event) for event in application.choreography.events]
    named = {contract.topic.name: f.lit(contract.key or contract.topic.name) for contract in contracts}
    saga = f.coalesce("correlation_id", "id")
    pairs = records.select(
        saga.alias("saga"), f.concat_ws(":", by_value("topic", named), "key").alias("node")
    ).distinct()
    shared = pairs.groupBy("node").agg(f.count("*").alias("sagas")).where("sagas > 1").select("node")
    edges = pairs.join(shared, "node").select("saga", "node")
    roots = joined((row["saga"], row["node"]) for row in edges.toLocalIterator(prefetchPartitions=True))
    sizes = Counter(roots.values())
    sagas = pairs.agg(f.count_distinct("saga")).collect()[0][0]
    parts = min(parts, max(1, sagas // max(sizes.values(), default=1)))
    if parts < 2:  # noqa: PLR2004  the largest component is most of the work
        return records.withColumn("part", f.lit(0)), 1
    found = {root: place % parts for place, (root, _) in enumerate(sizes.most_common())}
    rows = [(saga, found[root]) for saga, root in sorted(roots.items())]
    placed = records.sparkSession.createDataFrame(rows, "saga string, part int")
    alone = f.pmod(f.hash(saga), f.lit(parts))
    split = records.withColumn("saga", saga).join(placed, "saga", "left")
    return split.withColumn("part", f.coalesce("part", alone)).select(*records.columns, "part"), parts


def joined(edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a representative of each saga's component; edges are of sagas and the nodes that they share."""
    above = dict[str, str]()

    def root(of: str) -> str:
        while (up := above.setdefault(of, of)) != of:
            above[of] = above[up]
            of = above[of]
        return of

    sagas = set[str]()
    for saga, node in edges:
        sagas.add(saga)
        one, other = sorted((root(f"saga {saga}"), root(node)))
        above[other] = one
    return {saga: root(f"saga {saga}") for saga in sagas}
