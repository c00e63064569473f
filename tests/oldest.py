"""Print the lower bound of every dependency as a pip constraint: what `make test-oldest` installs.

The bounds stand in pyproject.toml alone.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *extras["report"], *extras["scale"], *extras["dask"]]:
    bound = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", line)
    if bound is not None:
        sys.stdout.write(f"{bound[1]}=={bound[2]}\n")
