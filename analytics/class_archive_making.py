"""`python -m analytics.class_archive_making FILE`: uses the classes that every job uses, in a JVM that archives them at its end."""

import sys
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from analytics.class_archive import SILENT, TAKES_S
from analytics.session import FOR_A_START, end_session, session


def _use(spark: SparkSession) -> None:
    with TemporaryDirectory() as place:
        rows = spark.createDataFrame([(1, "a"), (2, "b")], "n int, t string")
        rows.groupBy("t").agg(f.sum("n").alias("n")).write.parquet(f"{place}/rows")
        joined = spark.read.parquet(f"{place}/rows").join(rows, "t").orderBy("t").select(rows.n, "t")
        joined.mapInArrow(lambda batches: batches, rows.schema).collect()
        figures = f.percentile("n", f.array(f.lit(0.5), f.lit(0.9))), f.countDistinct("t"), f.max_by("t", "n")
        ranked = rows.unionAll(rows).withColumn("rank", f.row_number().over(Window.partitionBy("t").orderBy("n")))
        ranked.select("*", f.explode(f.array("n", "rank"))).groupBy("rank").agg(*figures).collect()


if __name__ == "__main__":
    java = f"{FOR_A_START} -XX:ArchiveClassesAtExit={sys.argv[1]} {SILENT}"
    try:
        _use(session("classes", master="local[1]", java=java))
    except BaseException:
        end_session(well=False, within_s=0)
        raise
    end_session(well=True, within_s=TAKES_S)
