"""Files of any size: batches of whole samples, sorted on disk by DuckDB or sent to Dask workers.

The functions that users call are in `hierlpr.workflows`.
"""
