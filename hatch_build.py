"""Compile the kernels into wheels and editable installs, where that is possible."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path(__file__).parent / "src"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put one extension module beside the kernels; without it Numba compiles them on first use."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a process of its own: what fails there must not fail the installation."""
        kernels = SOURCE / "hierlpr" / "_kernels"
        command = [sys.executable, "-m", "hierlpr._kernels._build"]
        done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
        built = list(kernels.glob("compiled_*"))
        if done.returncode != 0 or not built:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            self.app.display_warning(
                f"The kernels were not compiled ({reason}); they will be when first used."
            )
            return
        build_data["artifacts"].append("src/hierlpr/_kernels/compiled_*")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
