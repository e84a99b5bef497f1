"""Signatures over a certificate: a DSSE envelope with Ed25519, beside the plain statement.

The envelope holds the whole statement as its payload, so that it proves itself; verification compares the payload
with ``certificate.json`` byte by byte. Key ids are those of securesystemslib, so that other in-toto tools read it.
Specification: https://github.com/secure-systems-lab/dsse (v1). Needs the extra ``[sign]``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.certificate.failures import Code, Failure, failure
from pipeline.certificate.folder import read_certificate
from pipeline.errors import SchemaError, StorageError
from pipeline.shards.files import FolderLock, storage_errors, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ENVELOPE = "certificate.dsse.json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


def keygen(private: Path) -> tuple[Path, str]:
    """Make a key pair: ``private`` (PEM, PKCS #8, readable by its owner alone) and the same with ``.pub``.

    Returns the public key's path and its id. Raises ``StorageError`` where a file is there already: a key is never
    overwritten.
    """
    _need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    open_ = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    public = private.with_name(private.name + ".pub")
    _write_new(public, open_, 0o644)
    _write_new(private, secret, 0o600)
    return public, key_id(key.public_key())


def envelope(content: bytes, keys: Sequence[Path], held: bytes = b"") -> bytes:
    """A signed envelope around the bytes of a certificate.

    Args:
        content: of ``certificate.json``.
        keys: private keys to sign with.
        held: an envelope whose signatures are kept when it is of the same certificate.

    Raises:
        SchemaError: a key cannot be read.
    """
    signatures = dict(_signatures(held, content))
    for path in keys:
        key = _private(path)
        signatures[key_id(key.public_key())] = key.sign(_encoded(content))
    value = {
        "payload": base64.b64encode(content).decode("ascii"),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": name, "sig": base64.b64encode(signature).decode("ascii")}
            for name, signature in sorted(signatures.items())
        ],
    }
    return json.dumps(value, sort_keys=True, indent=1).encode("ascii") + b"\n"


def sign(clean: Path, keys: Sequence[Path], *, fsync: bool = True) -> Path:
    """Sign the certificate of an output folder; signatures of other keys over the same certificate stay.

    Raises:
        VerificationError: there is no certificate, or it was altered.
        BusyError: a run is writing there.
        SchemaError: a key cannot be read.
    """
    content = read_certificate(clean).to_bytes()
    place = clean / ENVELOPE
    with storage_errors(clean), FolderLock(clean):
        held = place.read_bytes() if place.exists() else b""
        write_atomic(place, envelope(content, keys, held), fsync=fsync)
    return place


def check(
    place: Path, content: bytes, trusted: Path, threshold: int
) -> tuple[tuple[str, ...], list[Failure]]:
    """Ids of the trusted keys whose signatures over ``content`` hold, and what is wrong.

    A signature counts once a key, whatever the envelope says; its key ids are hints and prove nothing.
    """
    keys = _trusted(trusted)
    try:
        held = place.read_bytes()
        payload, signatures = _parsed(held)
    except FileNotFoundError:
        return (), [failure(Code.SIGNATURE_MISSING, ENVELOPE, "no such file", f"{threshold} signatures")]
    except ValueError as error:
        return (), [failure(Code.SIGNATURE_INVALID, ENVELOPE, str(error), "a DSSE envelope")]
    if payload != content:
        return (), [failure(Code.SIGNATURE_STALE, ENVELOPE, "another certificate than certificate.json")]
    signers = tuple(
        sorted(name for name, key in keys.items() if any(_holds(key, content, s) for _, s in signatures))
    )
    if len(signers) < max(threshold, 1):
        found = f"{len(signers)} valid signatures of {len(keys)} trusted keys"
        return signers, [failure(Code.SIGNATURE_INVALID, ENVELOPE, found, f"at least {max(threshold, 1)}")]
    return signers, []


def is_stale(place: Path, content: bytes) -> bool:
    """Whether an envelope is there that is of another certificate, or none at all; needs no key."""
    try:
        return _parsed(place.read_bytes())[0] != content
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def key_id(key: Ed25519PublicKey) -> str:
    """Id of a public key as securesystemslib makes it: sha256 over the key's canonical JSON."""
    facts = {"keytype": "ed25519", "keyval": {"public": key.public_bytes_raw().hex()}, "scheme": "ed25519"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _encoded(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _parsed(held: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    try:
        value: Mapping[str, Any] = json.loads(held)
        if value["payloadType"] != PAYLOAD_TYPE:
            raise ValueError("not an envelope of an in-toto statement")
        signatures = [(str(s["keyid"]), _base64(s["sig"])) for s in value["signatures"]]
        return _base64(value["payload"]), signatures
    except (KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise ValueError(f"not a DSSE envelope: {type(error).__name__}") from error


def _base64(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), validate=True)


def _signatures(held: bytes, content: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        payload, signatures = _parsed(held)
    except ValueError:
        return
    if payload == content:
        yield from signatures


def _holds(key: Ed25519PublicKey, content: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, _encoded(content))
    except InvalidSignature:
        return False
    return True


def _private(path: Path) -> Ed25519PrivateKey:
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise _bad_key(path, type(error).__name__) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad_key(path, "a key of another kind")
    return key


def _trusted(folder: Path) -> dict[str, Ed25519PublicKey]:
    """Public keys of a folder by id; raises ``SchemaError`` where there is none, or one that cannot be read."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    keys = {}
    for path in sorted(folder.glob("*.pub")):
        try:
            key = load_pem_public_key(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _bad_key(path, type(error).__name__) from error
        if not isinstance(key, Ed25519PublicKey):
            raise _bad_key(path, "a key of another kind")
        keys[key_id(key)] = key
    if not keys:
        raise SchemaError(
            "no trusted keys",
            where=str(folder),
            expected="files named *.pub",
            remedy="make one with `keygen`",
        )
    return keys


def _bad_key(path: Path, found: str) -> SchemaError:
    return SchemaError(
        "not a usable key",
        where=str(path),
        found=found,
        expected="an Ed25519 key in PEM form",
        remedy="make one with `keygen`",
    )


def _write_new(path: Path, content: bytes, mode: int) -> None:
    with storage_errors(path):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except FileExistsError:
            raise StorageError(
                "is there already", where=str(path), remedy="name another file: a key is never overwritten"
            ) from None
        with os.fdopen(handle, "wb") as file:
            file.write(content)


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise SchemaError(
            "signing needs the package cryptography", remedy="pip install 'cleanroom-pipeline[sign]'"
        ) from None
