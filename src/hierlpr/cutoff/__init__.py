"""Block scores and truth -> a cutoff -> calls closed upward."""

from hierlpr.cutoff.choose import choose_cutoff
from hierlpr.cutoff.decisions import LabelCall, call_lists, decide, label_groups
from hierlpr.cutoff.outcome import Cutoff

__all__ = ["Cutoff", "LabelCall", "call_lists", "choose_cutoff", "decide", "label_groups"]
