"""The label graph: immutable labels, names and edges, checked once."""

from hierlpr.hierarchy.given import HierarchyLike, as_hierarchy
from hierlpr.hierarchy.label_graph import Hierarchy
from hierlpr.hierarchy.violations import Violations

__all__ = ["Hierarchy", "HierarchyLike", "Violations", "as_hierarchy"]
