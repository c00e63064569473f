"""p-values along a hierarchy -> discoveries that are closed upward, with a controlled FDR."""

from hierlpr.discovery.found import Discoveries, discover

__all__ = ["Discoveries", "discover"]
