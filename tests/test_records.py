"""One definition per record: what a field says is checked, described and offered everywhere."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest

from lemmata.cli.search import _filter_option
from lemmata.core.errors import InputError
from lemmata.core.records import Described, Member, arguments_of, build, check, schema_of
from lemmata.corpus.corpus import Corpus
from lemmata.search.filter import Date, Filter, Name, Names

DOCS = Path(__file__).parent.parent / "docs"


class Point(NamedTuple):
    x: float
    y: float = 0.0  # upwards


class Mark(TypedDict):
    point: Point | None
    colour: NotRequired[Literal["red", "blue"]]  # of the pen


@dataclass(frozen=True)
class Drawing:
    names: Annotated[tuple[str, ...], Described(most=2)] = ()  # of those who drew it
    where: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0
    marks: list[Mark] = field(default_factory=list)


def test_a_record_is_described_by_its_hints_defaults_and_comments() -> None:
    point = {
        "type": ["object", "null"],
        "properties": {"x": {"type": "number"}, "y": {"type": "number", "description": "upwards"}},
        "required": ["x", "y"],
        "additionalProperties": False,
    }
    colour = {"type": "string", "enum": ["red", "blue"], "description": "of the pen"}
    mark = {
        "type": "object",
        "properties": {"point": point, "colour": colour},
        "required": ["point"],
        "additionalProperties": False,
    }
    names = {"type": "array", "items": {"type": "string"}, "maxItems": 2, "description": "of those who drew it"}
    assert schema_of(Drawing) == {
        "type": "object",
        "properties": {
            "names": names,
            "where": {"type": "object", "additionalProperties": {"type": "string"}},
            "scale": {"type": "number", "default": 1.0},
            "marks": {"type": "array", "items": mark},
        },
        "additionalProperties": False,
    }


def test_values_become_a_record_and_all_that_does_not_fit_is_named() -> None:
    values = {"names": ["a"], "where": {"b": "c"}, "scale": 2, "marks": [{"point": None}]}
    assert build(Drawing, values, "", InputError) == Drawing(("a",), (("b", "c"),), 2.0, [{"point": None}])
    wrong = {
        "names": ["a", "b", "c"],
        "scale": "2",
        "marks": [{"colour": "rad", "point": {"x": 1, "y": True}}],
        "mark": 1,
    }
    with pytest.raises(InputError) as caught:
        build(Drawing, wrong, "", InputError)
    assert str(caught.value).split("; ") == [
        "names = ['a', 'b', 'c'] is too large: at most 2 items",
        "scale = '2' should be a number",
        "marks[0].colour = 'rad'",
        "did you mean 'red'?",
        "marks[0].point.y = True should be a number",
        "the request has no key 'mark'",
        "did you mean 'marks'?",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", True, 2.5, None])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    hint = str if isinstance(value, str) else int if value == 2.5 else float
    with pytest.raises(InputError):
        check(schema_of(hint), value, "x", InputError)


def test_arguments_are_those_of_the_signature() -> None:
    def draw(name: str, k: Annotated[int, Described(least=1)] = 3, size: int | None = None) -> None: ...

    assert arguments_of(draw, {"name": "a", "k": 2.0}, InputError) == {"name": "a", "k": 2}
    with pytest.raises(InputError, match="'name'"):
        arguments_of(draw, {"k": 0, "size": None}, InputError)


# ---------------------------------------------------------------- a filter

_OFFERED = """
import json, sys
from dataclasses import dataclass
import lemmata.search.filter as module
from lemmata.search.filter import Filter, Names

@dataclass(frozen=True, slots=True)
class Longer(Filter):
    topics: Names = ()

if "new" in sys.argv:
    module.Filter = Longer
from lemmata.cli.main import make_app
from lemmata.core.records import parameters_of
from lemmata.server.mcp import TOOLS
from lemmata.server.openapi import document
from typer.main import get_command

offered = {}
for name in ("search", "similar"):
    offered[f"lemmata {name}"] = [o for p in get_command(make_app(name)).commands[name].params for o in p.opts]
body = document()["paths"]["/search"]["post"]["requestBody"]["content"]["application/json"]["schema"]
offered["REST"] = [*body["properties"]["filter"]["properties"]]
offered["MCP"] = [*parameters_of(TOOLS[0])["properties"]]
print(json.dumps(offered))
"""


def offered() -> Iterator[dict[str, list[str]]]:
    """The filters of the command line, of REST and of the tools for agents, and in a new process with one more."""
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(_OFFERED, {"__name__": __name__})
    code = [sys.executable, "-c", _OFFERED, "new"]
    for said in (here.getvalue(), subprocess.run(code, capture_output=True, text=True, check=True).stdout):
        yield json.loads(said)


@pytest.mark.slow
def test_a_filter_is_one_field_and_offered_everywhere() -> None:
    """Adding one takes three places: the field, the rows that it selects, and a line of the documentation."""
    names = [member.name for member in fields(Filter)]
    options = [f"--{name.replace('ies', 'y').removesuffix('s')}" for name in names]
    before, after = offered()
    for where, expected in before.items():
        assert {*(options if "lemmata" in where else names)} <= {*expected}, where
        assert {*after[where]} - {*expected} == {"--topic" if "lemmata" in where else "topics"}, where
    selected = {*inspect.signature(Corpus.select).parameters} - {"self"}
    assert selected == {*names}
    for page in ("serve.md", "mcp.md"):
        documented = {*re.findall(r"`(\w+)`", (DOCS / page).read_text(encoding="utf-8"))}
        assert {*names} <= documented, page
    assert {*options} <= {*re.findall(r"`(--\w+)", (DOCS / "search.md").read_text(encoding="utf-8"))}


def test_only_a_date_of_a_filter_is_called_one_in_a_help() -> None:
    hints = {"since": Date, "title": Name, "titles": Names}
    options = [_filter_option(Member(name, hint, "", "")) for name, hint in hints.items()]
    assert [option.annotation.__metadata__[0].metavar for option in options] == ["DATE", "TITLE", "TITLE"]
