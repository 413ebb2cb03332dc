"""Archives: a log as Parquet files and a manifest, readable as a log."""
