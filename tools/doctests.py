"""For the documentation's site: examples in docstrings (doctest) are shown as code. Named in docs/mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: From a prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts fences around each example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that is documented."""
        if obj.docstring:
            fenced = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = fenced
