"""Print the lower bound of every dependency as a pip constraint: what `make test-oldest` installs.

The bounds stand in pyproject.toml alone.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = ("scale", "dask", "anndata")


def lower_bounds() -> list[str]:
    """Return the lower bounds of the dependencies and of the extras that users install."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    bounds = [re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", line) for line in lines]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    sys.stdout.write("\n".join([*lower_bounds(), ""]))
