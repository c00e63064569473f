"""Compile the kernels into wheels, where that is possible; make the README fit for an index."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE = Path(__file__).parent / "src"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Put the compiled kernels beside their source; without them Numba compiles on first use."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a process of its own: what fails there must not fail the installation."""
        command = [sys.executable, "-m", "hierlpr._kernels._build"]
        environment = dict(os.environ)
        if version != "editable":  # a wheel holds what Numba keeps beside the source
            environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            self.app.display_warning(
                f"The kernels were not compiled ({reason}); they will be when first used."
            )
            return
        if version != "editable":
            built = [Path(line) for line in done.stdout.splitlines()]
            places = {str(path): str(path.relative_to(SOURCE)) for path in built}
            build_data["force_include"].update(places)
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
