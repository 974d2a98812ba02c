"""A build hook: the README of the built package, whose links and pictures lead to the repository.

In the repository they are relative, so that they work in a clone, too. A package's page has no files beside it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\]\()(?P<target>(?!https?:|#)[^)\s]+)\)")
SOURCE = re.compile(r'(?P<attribute>src|srcset)="(?P<target>(?!https?:)[^"]+)"')


class PackageReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, metadata["urls"]["Homepage"]),
        }


def with_absolute_links(text: str, repository: str) -> str:
    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}{found['text']}{repository}/{kind}/main/{found['target']})"

    text = LINK.sub(link, text)
    return SOURCE.sub(lambda found: f'{found["attribute"]}="{repository}/raw/main/{found["target"]}"', text)
