"""Compile the kernels into wheels, where that is possible; make the README fit for an index."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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


class ReadmeHook(MetadataHookInterface):
    """Give the description that an index shows: the README with no link that is dead there."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Make relative links absolute if the metadata name a repository, else plain text."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "").rstrip("/")
        if source:
            text = re.sub(r"(!\[[^]]*\])\((?!\w+://)", rf"\1({source}/raw/main/", text)
            text = re.sub(r"(?<!!)(\[[^]]*\])\((?!\w+://|#)", rf"\1({source}/blob/main/", text)
        else:
            text = re.sub(r"!\[([^]]*)\]\((?!\w+://)[^)]*\)\n?", "", text)
            text = re.sub(r"\[([^]]*)\]\((?!\w+://)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
