"""Pictures of runs, as `anole-eval sim --plot` draws them: an algorithm has one colour and marker everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from . import _anole

if TYPE_CHECKING:
    from .result import Result


class Plot:
    """A picture as SVG. A notebook shows it; `save` writes it."""

    def __init__(self, svg: str) -> None:
        """Of SVG text."""
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: str | Path) -> Path:
        """Writes the picture to a file, whose name ends in `.svg`, and returns its path."""
        path = Path(file)
        if path.suffix != ".svg":
            raise ValueError(f"{path}: pictures are SVG; give a name that ends in .svg")
        path.write_text(self.svg, encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return f'Plot({len(self.svg)} bytes of SVG; save("NAME.svg") writes it)'


def plot(*results: Result) -> Plot:
    """Throughput, round-trip time, window, queue and losses over time: of one run all flows, of several the flow
    under test of each.

    >>> from anole_ccp import simulate
    >>> plot(*[simulate("anole-normal", alg, set=["duration_s=2"]) for alg in ("cubic", "anole")])
    Plot(... bytes of SVG; save("NAME.svg") writes it)
    """
    from .result import Result

    if not results:
        raise ValueError("there is nothing to plot; give results")
    for result in results:
        if not isinstance(result, Result):
            raise TypeError(f"a {type(result).__name__} is no result: plot(first, second), or plot(*results)")
    return Plot(_anole.plot([result._run for result in results]))
