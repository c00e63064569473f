"""The label graph: immutable names and edges, checked once."""

from hierlpr.hierarchy.label_graph import Hierarchy, Violations

__all__ = ["Hierarchy", "Violations"]
