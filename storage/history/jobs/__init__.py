"""History turned into answers by Spark: each module has a table and the function DataFrame -> DataFrame that
makes it. Nothing here imports pyspark until it is asked to work."""
