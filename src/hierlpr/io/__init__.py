"""Files in and out: hierarchies, scores, truth and rankings.

Every reader stops at the first problem with a `FileError` that names file and line, or, with
``lenient=True``, passes over row-level problems and counts them in its report.
"""

from hierlpr.io._watch import Problem, ReadReport
from hierlpr.io.arff import ArffData, ClusPredictions, read_arff, read_clus_predictions

__all__ = [
    "ArffData",
    "ClusPredictions",
    "Problem",
    "ReadReport",
    "read_arff",
    "read_clus_predictions",
]
