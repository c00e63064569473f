"""The public name of `hierlpr.research.simulate`."""

from hierlpr.research.simulate import *  # noqa: F403
from hierlpr.research.simulate import __all__  # noqa: F401
