"""What the paper reports: its tables as numbers and its claims as words."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLAIMS", "HIT_AREA", "SETTING_TITLES", "TABLE2", "TARGETS", "Claim"]

SETTING_TITLES = {
    "1": "chain high - low - high",
    "2": "high with children low, high",
    "3": "chain low - low - high",
    "4": "standalone high, medium, low",
    "tree25": "tree of 25 labels",
}

# Rows of the paper's Table 2: maximal F and targets of pooled precision.
TARGETS = ("max F", "0.80", "0.90", "0.95", "0.99")

# Table 2: mean and standard deviation, in percent, of the best minus the achieved value.
TABLE2: dict[str, dict[str, tuple[float, float]]] = {
    "1": {"max F": (0.57, 0.64), "0.80": (1.25, 7.7), "0.90": (0.56, 3.59),
          "0.95": (0.22, 1.77), "0.99": (0.13, 0.68)},
    "2": {"max F": (0.49, 0.64), "0.80": (0.71, 5.96), "0.90": (0.39, 2.94),
          "0.95": (0.22, 1.61), "0.99": (0.12, 0.64)},
    "3": {"max F": (7.51, 11.64), "0.80": (11.31, 20.48), "0.90": (17.53, 18.39),
          "0.95": (20.07, 17.2), "0.99": (21.69, 16.35)},
    "4": {"max F": (0.24, 0.45), "0.80": (3.13, 14.28), "0.90": (8.18, 9.57),
          "0.95": (1.29, 4.56), "0.99": (0.16, 0.75)},
}  # fmt: skip

# Areas under the hit curve, in millions, from a table that the paper's source keeps but does not
# print. Its settings 1, 2, 3 and 10 are our 1, 2, 3 and 4 as far as its text tells; its sizes are
# larger than those the paper states, so only the order of the methods can be compared.
HIT_AREA: dict[str, dict[str, float]] = {
    "1": {"ClusHMC": 188.366, "LPR": 187.604, "HierLPR": 188.044},
    "2": {"ClusHMC": 188.392, "LPR": 187.625, "HierLPR": 188.023},
    "3": {"ClusHMC": 88.537, "LPR": 86.231, "HierLPR": 87.852},
    "4": {"ClusHMC": 323.374, "LPR": 324.770, "HierLPR": 324.770},
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of the paper about two methods in one setting, as a sign to be checked.

    `difference` is the measure of `better` minus that of `other`; `sign` is what the paper says
    of it: 1 above, 0 equal.
    """

    words: str
    setting: str
    measure: str
    better: str
    other: str
    sign: int = 1


CLAIMS = (
    Claim("HierLPR has a larger hit area than LPR", "1", "hit_area", "HierLPR", "LPR"),
    Claim("HierLPR has a larger hit area than LPR", "2", "hit_area", "HierLPR", "LPR"),
    Claim("HierLPR has a larger hit area than LPR", "3", "hit_area", "HierLPR", "LPR"),
    Claim("without hierarchy HierLPR is LPR", "4", "hit_area", "HierLPR", "LPR", sign=0),
    Claim("LPR alone looks better in the beginning", "3", "start", "LPR", "HierLPR"),
    Claim("after a sharp drop HierLPR dominates LPR", "3", "middle", "HierLPR", "LPR"),
    Claim("HierLPR is more precise than ClusHMC to recall 0.5", "1", "early", "HierLPR", "ClusHMC"),
    Claim("HierLPR is more precise than ClusHMC to recall 0.5", "2", "early", "HierLPR", "ClusHMC"),
    Claim("ClusHMC is more precise than HierLPR to recall 0.5", "3", "early", "ClusHMC", "HierLPR"),
    Claim("HierLPR is more precise than ClusHMC to recall 0.5", "4", "early", "HierLPR", "ClusHMC"),
    Claim("HierLPR performs better overall than ClusHMC", "disease", "au_prc", "HierLPR",
          "ClusHMC"),
    Claim("HierLPR performs better overall than LPR", "disease", "au_prc", "HierLPR", "LPR"),
    Claim("HierLPR performs better overall than corrected calls", "disease", "au_prc", "HierLPR",
          "corrected calls"),
    Claim("HierLPR is better in the initial portion than ClusHMC", "disease", "early", "HierLPR",
          "ClusHMC"),
    Claim("HierLPR is better in the initial portion than LPR", "disease", "early", "HierLPR",
          "LPR"),
    Claim("HierLPR is better in the initial portion than corrected calls", "disease", "early",
          "HierLPR", "corrected calls"),
    Claim("ClusHMC calls standalone positives later than HierLPR", "disease", "others_before_alone",
          "ClusHMC", "HierLPR"),
)  # fmt: skip
