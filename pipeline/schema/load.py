"""A schema file becomes a model, or one error that lists every mistake with its line and the nearest known key.

The user's keys win; mappings are merged key by key, lists and values are replaced whole.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pipeline.errors import InputError, SchemaError
from pipeline.schema.model import KINDS, Schema, SchemaOfNoKind, schema_of
from pipeline.schema.rules import rules_of

# ``preset: funsd``: a ready YAML fragment for a known kind of source, under the user's own schema; or a
# fragment of the user's own, ``preset: ./scans.yaml``.


PATH = r"[/\\]|\.ya?ml$"
"""What tells a path from a name; also in the published JSON Schema."""


def presets() -> tuple[str, ...]:
    """Names of all presets, sorted."""
    folder = resources.files("pipeline.schema") / "presets"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def fragment(name: str) -> dict[str, Any]:
    """The preset's part of a schema."""
    text = (resources.files("pipeline.schema") / "presets" / f"{name}.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def named(name: Any, path: Path) -> dict[str, Any]:
    """The fragment of a preset named in the schema file ``path``.

    Raises:
        SchemaError: no preset has this name.
    """
    known = presets()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=1)
        raise SchemaError(
            "no such preset",
            where=f"{path}: preset",
            found=str(name)[:60],
            expected=f"{near[0]}?" if near else ", ".join(known),
        )
    return fragment(name)


def is_path(name: Any) -> bool:
    """Whether a preset is given by the path of its file: it has a slash, or the suffix of a YAML file."""
    return isinstance(name, str) and bool(re.search(PATH, name))


def located(name: str, path: Path, line: int) -> Path:
    """The file of a preset given by its path, which starts at the folder of the schema file.

    A path leads out of that folder only where it says so by ``..``: whoever reads the schema then sees it.

    Args:
        name: the path as written. path, line: the schema file, and the line of ``preset``.

    Raises:
        SchemaError: the path is absolute, leads elsewhere by a link, or no file is there.
    """
    where, found, folder = f"{path}:{line}: preset", name[:200], path.parent
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).is_absolute():
        raise SchemaError(
            "a preset is not given by an absolute path",
            where=where,
            found=found,
            expected="a path that starts at the folder of the schema file",
            remedy="write a relative path (`../presets/scans.yaml`), so that the schema holds on any machine",
        )
    file = folder / name
    if not file.is_file():
        raise SchemaError(
            "the file of the preset is not there",
            where=where,
            found=found,
            expected=f"a file in {folder}, where the path starts",
            remedy="correct the path, or name a preset that comes with the program: see docs/presets.md",
        )
    if ".." not in PurePosixPath(name).parts and folder.resolve() not in file.resolve().parents:
        raise SchemaError(
            "the path of the preset leads out of the schema's folder by a link",
            where=where,
            found=found,
            expected=f"a file below {folder}, or a path that shows with `..` that it leads elsewhere",
            remedy="write the path that the link stands for, or copy the file",
        )
    return file


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``under``; neither is changed."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        out[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out


# What is wrong with a schema, in words: the place in its file, or its preset's, and the nearest known key.


Loc = tuple[str | int, ...]
"""Place in the file: keys and list indexes."""


class Place(NamedTuple):
    """A line of the schema file, or of the file of its preset.

    Attributes:
        preset: path of the preset's file, empty for the schema file itself.
        line: from 1.
    """

    preset: str
    line: int

    def __str__(self) -> str:
        return f"{self.preset}, line {self.line}" if self.preset else f"line {self.line}"


def place_of(loc: Loc, places: Mapping[Loc, Place]) -> Place:
    """Where a key or item stands: itself, else the nearest mapping or list around it."""
    return next((places[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in places), Place("", 1))


def mistakes(error: ValidationError, data: Any, places: Mapping[Loc, Place]) -> Iterator[tuple[Place, str]]:
    """(place, text) of each mistake that pydantic names; ``places`` gives the place of each key and item."""
    seen: set[tuple[Loc, str]] = set()
    kind = str(data.get("kind")) if isinstance(data, dict) else ""
    model = KINDS.get(kind, SchemaOfNoKind)
    for item in error.errors():
        if said := _section(item, kind):
            yield place_of(item["loc"] if item["type"] == "none_required" else (), places), said
            continue
        loc, unions = _in_file(item["loc"], data)
        name = ".".join(str(part) for part in loc) or "schema"
        if item["type"] == "extra_forbidden":
            known = _known_keys(model, item["loc"][:-1])
            near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
            text = f"{name}: unknown key; " + (
                f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
            )
        elif item["type"] == "missing":
            text = (
                f"{name}.{item['loc'][-1]}: is missing"
                if name != "schema"
                else f"{item['loc'][-1]}: is missing"
            )
        else:
            message = item["msg"].removeprefix("Value error, ")
            value = item.get("input")
            shown = f" (found {value!r})" if isinstance(value, str | int | float | bool | None) else ""
            text = f"{name}: {message[0].lower()}{message[1:]}{shown}"
        if (loc, "" if unions else text) not in seen:
            seen.add((loc, "" if unions else text))
            yield place_of(loc, places), text


def _section(item: ErrorDetails, kind: str) -> str:
    """What is said where a section of a kind is missing or another kind's; empty for any other mistake."""
    if kind not in KINDS or len(item["loc"]) != 1:
        return ""
    name = str(item["loc"][0])
    is_absent = item["type"] == "missing" or item["input"] is None
    if item["type"] == "none_required" and name in KINDS:
        return f"schema: kind is {kind!r}: section `{name}` does not belong"
    if name == kind and is_absent:
        return f"schema: kind is {kind!r}: section `{name}` is missing"
    if name == "tokenizer" and is_absent:
        return f"schema: kind {kind!r} needs a `tokenizer`"
    return ""


def _in_file(loc: tuple[str | int, ...], data: Any) -> tuple[Loc, bool]:
    """The part of a pydantic location that stands in the file: tags of unions do not. True: there were some."""
    place: list[str | int] = []
    left_out = False
    for index, part in enumerate(loc):
        if part in data if isinstance(data, dict) else _is_index(part, data):
            data = data[part]
            place.append(part)
        elif index < len(loc) - 1 or not isinstance(data, dict):
            left_out = True
    return tuple(place), left_out


def _is_index(part: str | int, data: Any) -> bool:
    return isinstance(data, list) and isinstance(part, int) and part < len(data)


def _known_keys(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """Keys known at a location, following the models of the schema."""

    def models_in(annotation: Any) -> list[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return [annotation]
        return [m for a in get_args(annotation) for m in models_in(a)]

    here: list[type[BaseModel]] = [model]
    for part in loc:
        inner: list[type[BaseModel]] = []
        for candidate in here:
            if isinstance(part, str) and part in candidate.model_fields:
                inner += models_in(candidate.model_fields[part].annotation)
        if inner:
            here = inner
        elif any(_tag(m) == part or m.__name__ == part for m in here):
            here = [m for m in here if _tag(m) == part or m.__name__ == part]
    return sorted({key for m in here for key in m.model_fields})


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("format")
    names = get_args(field.annotation) if field else ()
    return names[0] if names else None


# A schema file becomes a model, or one error that lists every mistake with its line and the nearest known
# key.


MAX_BYTES = 1_000_000
"""A schema file larger than this is refused unread."""


@dataclass(frozen=True, slots=True)
class LoadedSchema:
    """A schema with the file it came from; relative paths in it start at ``folder``.

    Attributes:
        preset: the file under it, where ``preset`` gives a path.
    """

    schema: Schema
    path: Path
    preset: Path | None = None

    @property
    def folder(self) -> Path:
        """Folder of the schema file."""
        return self.path.parent


_EXPECTED = {"schema": "a mapping with `version: 1`", "preset": "keys of a schema"}


class _Loader(yaml.CSafeLoader):
    """Plain YAML without dates: ``2024-01-01`` stays text, ``yes`` and ``no`` stay text, a key stands once."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":bool"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF")
)


def load_schema(path: Path) -> LoadedSchema:
    """Read and check one schema file.

    Raises:
        InputError: the file is not there or cannot be read.
        SchemaError: it is not YAML, or not a schema; every mistake is named with its line.
    """
    try:
        text = _read(path, "schema")
    except OSError as error:
        raise InputError(
            "the schema file cannot be read",
            where=str(path),
            found=error.strerror or type(error).__name__,
            remedy="check the path given with --schema or --schemas",
        ) from None
    data, lines = _parse(text, path, "schema")
    places = {loc: Place("", line) for loc, line in lines.items()}
    data, preset = _with_preset(data, places, path)
    try:
        schema = schema_of(data)
    except ValidationError as error:
        found = sorted(mistakes(error, data, places), key=lambda mistake: mistake[0])
        raise SchemaError(
            f"{len(found)} mistake{'s' if len(found) > 1 else ''} in the schema\n"
            + "\n".join(f"  {place}: {text}" for place, text in found),
            where=str(path),
            remedy=f"correct the file; `python -m pipeline schema check {path}` checks it again",
        ) from None
    try:
        rules_of(schema)
    except SchemaError as error:
        place = place_of(tuple(error.where.split(".")), places)
        raise SchemaError(
            error.what,
            where=f"{place.preset or path}:{place.line}: {error.where}",
            found=error.found,
            expected=error.expected,
            remedy=error.remedy,
        ) from None
    return LoadedSchema(schema, path, preset)


def load_schemas(paths: list[Path]) -> list[LoadedSchema]:
    """Read several files; their names must differ.

    Raises:
        SchemaError: two schemas have one name, or a file has mistakes.
    """
    loaded = [load_schema(path) for path in paths]
    seen: dict[str, Path] = {}
    for one in loaded:
        if (other := seen.setdefault(one.schema.name, one.path)) is not one.path:
            raise SchemaError(
                f"two schemas are named {one.schema.name!r}",
                where=f"{other}, {one.path}",
                remedy="give each schema its own `name`: it names the data set in the output folder",
            )
    return loaded


def _read(path: Path, what: str) -> str:
    """The text of a schema or preset; raises ``OSError`` where it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SchemaError(
                f"the {what} file is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes"
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError(f"the {what} is not UTF-8", where=str(path), found=f"byte {error.start}") from None


def _with_preset(data: Any, places: dict[Loc, Place], path: Path) -> tuple[Any, Path | None]:
    """The schema with its preset beneath it, and the preset's file where it is given by a path.

    ``places`` gains the places of the preset's file; what the schema file says itself keeps its own.
    """
    if not isinstance(data, dict) or "preset" not in data:
        return data, None

    name, file = data["preset"], None
    if is_path(name):
        file = located(name, path, places["preset",].line)
        under = _own_preset(file, name, places, f"{path}:{places['preset',].line}: preset")
    else:
        under = named(name, path)
    return merged(under, {key: value for key, value in data.items() if key != "preset"}), file


def _own_preset(file: Path, name: str, places: dict[Loc, Place], where: str) -> dict[str, Any]:
    """The fragment in a file of the user's own."""
    try:
        text = _read(file, "preset")
    except OSError as error:
        raise SchemaError(
            "the file of the preset cannot be read",
            where=where,
            found=error.strerror or type(error).__name__,
            expected="a file that may be read",
            remedy="check the file and its permissions",
        ) from None
    data, lines = _parse(text, file, "preset")
    if not isinstance(data, dict):
        raise SchemaError(
            "the preset is no mapping",
            where=str(file),
            found=type(data).__name__,
            expected="keys of a schema",
            remedy="write keys as in a schema file; those of the schema win",
        )
    if "preset" in data:
        raise SchemaError(
            "a preset names a preset",
            where=f"{file}:{lines['preset',]}: preset",
            found=str(data["preset"])[:200],
            expected="keys of a schema, without `preset`",
            remedy="copy the keys of the other preset into this one",
        )
    for loc, line in lines.items():
        places.setdefault(loc, Place(name, line))
    return data


def _parse(text: str, path: Path, what: str) -> tuple[Any, dict[Loc, int]]:
    """The data, and the line of each key and item; ``what`` says whether it is a schema or a preset."""
    lines: dict[Loc, int] = {}
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise SchemaError(f"the {what} is empty", where=str(path), expected=_EXPECTED[what])
        _walk(node, (), lines, path)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SchemaError(f"the {what} is not valid YAML", where=place, found=str(problem)) from None
    except (RecursionError, ValueError) as error:
        raise SchemaError(
            f"the {what} is not valid YAML", where=str(path), found=type(error).__name__
        ) from None
    return data, lines


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], path: Path) -> None:
    lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*loc, key.value)
            if inner in lines:
                raise SchemaError(
                    f"the key {key.value!r} stands twice",
                    where=f"{path}:{key.start_mark.line + 1}",
                    remedy="keep one of the two",
                )
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*loc, index), lines, path)
