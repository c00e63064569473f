"""Files in and out: hierarchies, scores, truth and rankings.

Every reader stops at the first problem with a `FileError` that names the file and the place or,
with ``lenient=True``, skips bad rows and counts them in its report.
"""

from hierlpr.hierarchy.conversion import as_hierarchy
from hierlpr.io.auxiliary_tables import read_p_values, read_weights
from hierlpr.io.hierarchies import (
    HierarchyFile,
    load_hierarchy,
    read_hierarchy,
    write_hierarchy,
)
from hierlpr.io.read_tables import (
    ReadTable,
    pair_samples,
    read_ranking,
    read_scores,
    read_truth,
)
from hierlpr.io.reading import ReadReport
from hierlpr.io.table_files import TableOptions, open_table
from hierlpr.io.table_output import write_discoveries, write_ranking, write_scores, write_truth

__all__ = [
    "HierarchyFile",
    "ReadReport",
    "ReadTable",
    "TableOptions",
    "as_hierarchy",
    "load_hierarchy",
    "open_table",
    "pair_samples",
    "read_hierarchy",
    "read_p_values",
    "read_ranking",
    "read_scores",
    "read_truth",
    "read_weights",
    "write_discoveries",
    "write_hierarchy",
    "write_ranking",
    "write_scores",
    "write_truth",
]
