"""Canonical JSON bytes, and the digests of them.

The canonical form has sorted keys, no white space, ASCII characters only, and no floats, because programs write floats
in different ways. The root digest binds every file by name, digest and row count, and all other content of the
certificate.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

_ROOT = b"cleanroom-root-v1\n"


def canonical(value: Any, *, without_floats: bool = False) -> bytes:
    """The canonical bytes of a value; raises ``TypeError`` for a float or a value that JSON cannot hold.

    ``without_floats`` promises that the value holds no float, as every value that ``parse_json`` returns.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    if not without_floats:
        # The C parser finds a float many times faster than a walk through the values.
        parse_json(text)
    return text.encode("ascii") + b"\n"


def parse_json(content: str | bytes) -> Any:
    """The value of a JSON text; raises ``TypeError`` where it holds a float, ``ValueError`` where it is not JSON."""
    return json.loads(content, parse_float=_refuse_float, parse_constant=_refuse_float)


def _refuse_float(text: str) -> None:
    raise TypeError("a certificate holds no floats: write the number as text")


def floats_as_text(value: Any) -> Any:
    """The same value with each float as its shortest exact text, each tuple as a list and each key as text."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): floats_as_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [floats_as_text(item) for item in value]
    return value


def sha256(content: bytes) -> str:
    """The sha256 of bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(value: Any) -> str:
    """The sha256 of a value's canonical bytes, with floats as text."""
    return sha256(canonical(floats_as_text(value)))


def root_digest(files: Iterable[tuple[str, str, int]], predicate: bytes) -> str:
    """The root digest of an output folder.

    Args:
        files: (name relative to the folder, sha256, rows) of every shard, quarantine included.
        predicate: canonical bytes of the certificate's predicate: contracts, Arrow schemas, tokenizers, templates,
            parameters, libraries, inputs. The root binds all of it, so that no byte of a certificate can change
            unnoticed.
    """
    state = hashlib.sha256(_ROOT)
    for name, digest, rows in sorted(files):
        encoded = name.encode("utf-8", "surrogatepass")
        state.update(
            struct.pack(">Q", len(encoded)) + encoded + bytes.fromhex(digest) + struct.pack(">Q", rows)
        )
    state.update(b"\n" + hashlib.sha256(predicate).digest())
    return state.hexdigest()
