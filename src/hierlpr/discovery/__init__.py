"""p-values along a hierarchy -> discoveries closed upward, with a controlled FDR."""

from hierlpr.discovery.discoveries import Discoveries, discover

__all__ = ["Discoveries", "discover"]
