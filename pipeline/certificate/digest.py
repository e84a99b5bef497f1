"""Canonical bytes and the digests made of them.

Every certificate is written in one canonical form: sorted keys, no white space, ASCII only, and no floats, whose
text differs between programs. The root digest binds each file by name, digest and row count, and everything else
the certificate says.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any

_ROOT = b"cleanroom-root-v1\n"


def canonical(value: Any, *, without_floats: bool = False) -> bytes:
    """The one way to write a value as JSON; raises ``TypeError`` for a float or anything that is not plain JSON.

    ``without_floats`` says that the value is known to hold none, as one that ``read`` gives.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    if not without_floats:
        # Reading it back is how the C parser finds a float: many times faster than a walk through the values.
        read(text)
    return text.encode("ascii") + b"\n"


def read(content: str | bytes) -> Any:
    """The value of JSON; raises ``TypeError`` where a float is in it, ``ValueError`` where it is none."""
    return json.loads(content, parse_float=_refuse_float, parse_constant=_refuse_float)


def _refuse_float(text: str) -> None:
    raise TypeError("a certificate holds no floats: write the number as text")


def exact(value: Any) -> Any:
    """The same value with each float as its shortest exact text, tuples as lists and keys as text."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    return value


def sha256(content: bytes) -> str:
    """Digest of bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(value: Any) -> str:
    """Digest of a value's canonical bytes, floats taken by their exact text."""
    return sha256(canonical(exact(value)))


def root_digest(files: Iterable[tuple[str, str, int]], predicate: Mapping[str, Any]) -> str:
    """The digest of a whole output folder.

    Args:
        files: (name relative to the folder, sha256, rows) of every shard, quarantine included.
        predicate: everything else the certificate says: contracts, Arrow schemas, tokenizers, templates, parameters,
            libraries, inputs. Binding it whole means that no byte of a certificate can change unnoticed.
    """
    return root_over(files, canonical(predicate))


def root_over(files: Iterable[tuple[str, str, int]], content: bytes) -> str:
    """The same root, from the predicate's canonical bytes."""
    state = hashlib.sha256(_ROOT)
    for name, digest, rows in sorted(files):
        encoded = name.encode("utf-8", "surrogatepass")
        state.update(
            struct.pack(">Q", len(encoded)) + encoded + bytes.fromhex(digest) + struct.pack(">Q", rows)
        )
    state.update(b"\n" + hashlib.sha256(content).digest())
    return state.hexdigest()
