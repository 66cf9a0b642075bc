"""History on disk: Parquet segments that appear whole or not at all, their compaction, retention, reading."""
