"""p-values along a hierarchy -> discoveries that are closed upward, with a controlled FDR."""

from typing import TYPE_CHECKING

from hierlpr._base.lazy import loader

if TYPE_CHECKING:
    from hierlpr.discovery.found import Discoveries
    from hierlpr.discovery.procedures import discover

_HOMES = {"Discoveries": "found", "discover": "procedures"}

__all__ = ["Discoveries", "discover"]


__getattr__ = loader(__name__, _HOMES)
