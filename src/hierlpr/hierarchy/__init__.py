"""The label graph: immutable labels, names and edges, checked once."""

from hierlpr.hierarchy.label_graph import Hierarchy
from hierlpr.hierarchy.matrices import Violations

__all__ = ["Hierarchy", "Violations"]
