"""Files in and out: hierarchies, scores, truth and rankings.

Every reader stops at the first problem with a `FileError` that names file and line, or, with
``lenient=True``, passes over row-level problems and counts them in its report.
"""

from hierlpr.io._watch import Problem, ReadReport, Watch
from hierlpr.io.arff_tables import ArffData, ClusPredictions, read_arff, read_clus_predictions
from hierlpr.io.hierarchies import (
    HierarchyFile,
    HierarchyLike,
    as_hierarchy,
    load_hierarchy,
    read_hierarchy,
)
from hierlpr.io.hierarchy_output import write_arff, write_hierarchy
from hierlpr.io.opening import TablePath
from hierlpr.io.rankings import RankingFile, read_ranking, write_ranking
from hierlpr.io.side_tables import PValuesFile, read_names, read_p_values
from hierlpr.io.table_output import write_discoveries, write_scores, write_truth
from hierlpr.io.whole_tables import (
    Pair,
    ReadTable,
    TruthSets,
    pair_samples,
    read_scores,
    read_truth,
    read_truth_sets,
)

__all__ = [
    "ArffData",
    "ClusPredictions",
    "HierarchyFile",
    "HierarchyLike",
    "PValuesFile",
    "Pair",
    "Problem",
    "RankingFile",
    "ReadReport",
    "ReadTable",
    "TablePath",
    "TruthSets",
    "Watch",
    "as_hierarchy",
    "load_hierarchy",
    "pair_samples",
    "read_arff",
    "read_clus_predictions",
    "read_hierarchy",
    "read_names",
    "read_p_values",
    "read_ranking",
    "read_scores",
    "read_truth",
    "read_truth_sets",
    "write_arff",
    "write_discoveries",
    "write_hierarchy",
    "write_ranking",
    "write_scores",
    "write_truth",
]
