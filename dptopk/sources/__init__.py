"""Where events come from: DataFrames and lazy queries, files, plain Python."""
