"""Scenarios: links, their changes, and flows. The keys are those of `evaluation/scenarios/README.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _anole

TABLES = ("link", "change", "random_change", "flow")
"""Tables that a scenario has any number of."""


class Scenario:
    """A checked scenario.

    It is read from one of these:

    - the name of one that comes with the package: `Scenario("anole-normal")` (`names()` lists them);
    - a TOML file: `Scenario("mine.toml")`, a path or a string that ends in `.toml`; traces are found beside it;
    - TOML text: a string with line breaks;
    - keywords, the keys of the TOML: `link`, `change`, `random_change` and `flow` are dictionaries, or lists of
      them.

    Keywords beside a name, a file or a text change it, as `--set` does. What a scenario in keywords leaves out is
    filled in: a name, 30 s, a link's name (`bottleneck`), and one flow under test that runs `cubic`.

    >>> link = {"capacity_mbps": 48, "one_way_delay_ms": 25, "buffer_bdp": 2}
    >>> Scenario(link=link, duration_s=10).duration_s
    10.0
    >>> Scenario("anole-normal", duration_s=5, set=["bottleneck.random_loss=0.01"]).duration_s
    5.0
    >>> Scenario(link={"capacity_mbps": 48, "one_way_delay_ms": 25, "bufer_bdp": 2})
    Traceback (most recent call last):
    ...
    ValueError: keywords:8: unknown field `bufer_bdp`, expected one of ...
    """

    def __init__(
        self,
        source: str | Path | None = None,
        *,
        set: Sequence[str] = (),
        link: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        flow: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        change: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        random_change: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        **top: Any,
    ) -> None:
        """`set`: changes, `KEY=VALUE` with KEY as `LINK.KEY`, `flow.KEY`, `param.NAME` or a key of the top level;
        `top`: keys of the top level. Raises ValueError with the line of what is wrong, FileNotFoundError for a
        file that is not there."""
        tables = {"link": link, "change": change, "random_change": random_change, "flow": flow}
        given = {name: _list(name, table) for name, table in tables.items() if table is not None}
        self.folder = Path(".")
        self.set = _changes(set)
        if source is None:
            self.file, self.toml = "keywords", _toml(_filled(given, top))
        else:
            if given:
                raise ValueError(
                    f"{', '.join(given)}: tables go with keywords alone; change a scenario's with set="
                )
            self.file, self.toml, self.folder = _read(source)
            self.set = [f"{key}={_value(value)}" for key, value in top.items()] + self.set
        self._scenario = _anole.Scenario(self.toml, self.file, self.set, self._trace)

    def changed(self, changes: Sequence[str]) -> Scenario:
        """The same with more changes, each as in `set`. Raises ValueError where one makes no sense.

        >>> Scenario("anole-normal").changed(["duration_s=5"]).duration_s
        5.0
        """
        if not changes:
            return self
        if not self.toml:
            raise ValueError(f"{self.name} was drawn at random and has no text to change")
        return self._made(self.file, self.toml, self.folder, [*self.set, *_changes(changes)])

    @classmethod
    def _made(cls, file: str, toml: str, folder: Path, changes: list[str]) -> Scenario:
        made = cls.__new__(cls)
        made.file, made.toml, made.folder, made.set = file, toml, folder, changes
        made._scenario = _anole.Scenario(toml, file, changes, made._trace)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Its text travels to other processes, and is read again there."""
        if not self.toml:
            raise TypeError(f"{self.name} was drawn at random and has no text to pickle")
        return type(self)._made, (self.file, self.toml, self.folder, self.set)

    @classmethod
    def _of(cls, checked: _anole.Scenario) -> Scenario:
        """One that was drawn, which has no text."""
        made = cls.__new__(cls)
        made.file, made.toml, made.folder, made.set = "", "", Path("."), []
        made._scenario = checked
        return made

    def _trace(self, path: str) -> str:
        return (self.folder / path).read_text(encoding="utf-8")

    @staticmethod
    def names() -> list[str]:
        """Names of the scenarios that come with the package."""
        return _anole.scenario_names()

    @property
    def name(self) -> str:
        """Its name, as in results."""
        return self._scenario.name

    @property
    def duration_s(self) -> float:
        """Length of a run, s."""
        return self._scenario.duration_s

    @property
    def seed(self) -> int:
        """Seed of a run that is given none."""
        return self._scenario.seed

    def __repr__(self) -> str:
        links = [f"{name} {mbps:g} Mbps {ms:g} ms" for name, mbps, ms, _ in self._scenario.links]
        flows = [alg + (" (under test)" if tested else "") for alg, tested in self._scenario.flows]
        return f"Scenario({self.name!r}, {self.duration_s:g} s, links: {', '.join(links)}; flows: {', '.join(flows)})"


def _list(name: str, table: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    tables = [table] if isinstance(table, Mapping) else list(table)
    for one in tables:
        if not isinstance(one, Mapping):
            raise TypeError(f"{name} = {table!r}: give a dictionary, or a list of them")
    return tables


def _changes(given: Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _read(source: str | Path) -> tuple[str, str, Path]:
    """(how errors name it, text, folder of its traces)."""
    if not isinstance(source, (str, Path)):
        raise TypeError(f"{source!r} is no scenario: give a name, a file, TOML text, or keywords")
    if isinstance(source, str) and "\n" in source:
        return "text", source, Path(".")
    if isinstance(source, Path) or source.endswith(".toml"):
        return str(source), Path(source).read_text(encoding="utf-8"), Path(source).parent
    return source, _anole.scenario_text(source), Path(".")


def _filled(tables: Mapping[str, list[Mapping[str, Any]]], top: Mapping[str, Any]) -> dict[str, Any]:
    """A scenario in keywords with what it leaves out."""
    tables = dict(tables)
    names = ["bottleneck", *(f"link{number}" for number in range(2, 1 + len(tables.get("link", []))))]
    named: list[Mapping[str, Any]] = [
        {"name": name} | dict(link) for name, link in zip(names, tables.get("link", []), strict=False)
    ]
    flows = tables.get("flow", [{}])
    tables["link"] = named
    tables["flow"] = [
        {"alg": "cubic"} | ({"under_test": True} if len(flows) == 1 else {}) | dict(f) for f in flows
    ]
    return {"name": "scenario", "duration_s": 30.0} | dict(top) | tables


def _toml(scenario: Mapping[str, Any]) -> str:
    """A scenario as TOML, a key a line."""
    lines = [f"{key} = {_value(value)}" for key, value in scenario.items() if key not in TABLES]
    for name in TABLES:
        for table in scenario.get(name, []):
            lines += ["", f"[[{name}]]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A value as TOML."""
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case str():
            # What JSON escapes beyond the basic plane is no TOML.
            return json.dumps(value, ensure_ascii=False)
        case int() | np.integer():
            return str(int(value))
        case Mapping():
            return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case _:
            try:
                return repr(float(value))
            except (TypeError, ValueError):
                raise TypeError(f"{value!r} is no value of a scenario") from None


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
