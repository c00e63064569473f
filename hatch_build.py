"""Prepare the README for a package index when the package is built."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Give the description that an index shows: the README with no link that is dead there."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Make relative links absolute if the metadata name a repository, else plain text."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "").rstrip("/")
        if source:
            text = re.sub(r"(!\[[^]]*\])\((?!\w+://)", rf"\1({source}/raw/main/", text)
            text = re.sub(r"(?<!!)(\[[^]]*\])\((?!\w+://|#)", rf"\1({source}/blob/main/", text)
            text = re.sub(r'(src(?:set)?=")(?!\w+://)', rf"\1{source}/raw/main/", text)
        else:
            text = re.sub(r"<picture>.*?</picture>\n?", "", text)
            text = re.sub(r"!\[([^]]*)\]\((?!\w+://)[^)]*\)\n?", "", text)
            text = re.sub(r"\[([^]]*)\]\((?!\w+://)[^)]*\)", r"\1", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
