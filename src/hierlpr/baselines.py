"""The public name of `hierlpr.research.baselines`."""

from hierlpr.research.baselines import *  # noqa: F403
from hierlpr.research.baselines import __all__  # noqa: F401
