"""The label graph: immutable labels, names and edges, checked once."""

from hierlpr.hierarchy.label_graph import Hierarchy

__all__ = ["Hierarchy"]
