"""Block scores and truth -> a level to call at -> calls closed upward."""

from typing import TYPE_CHECKING

from hierlpr._base.lazy import loader

if TYPE_CHECKING:
    from hierlpr.cutoff.by_group import label_groups
    from hierlpr.cutoff.choose import choose_cutoff
    from hierlpr.cutoff.decisions import LabelCall, call_lists, decide
    from hierlpr.cutoff.outcome import Cutoff

_HOMES = {
    "Cutoff": "outcome",
    "LabelCall": "decisions",
    "call_lists": "decisions",
    "choose_cutoff": "choose",
    "decide": "decisions",
    "label_groups": "by_group",
}

__all__ = ["Cutoff", "LabelCall", "call_lists", "choose_cutoff", "decide", "label_groups"]


__getattr__ = loader(__name__, _HOMES)
