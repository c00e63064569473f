"""Where the real data sets are, if they are: tests that need them skip visibly without."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HIERLPR_DATA", ROOT / "../shared/data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the real data are not at {DATA} (set HIERLPR_DATA)"
)
