"""Signatures over a certificate: a DSSE envelope with Ed25519, beside the plain statement.

The envelope holds the whole statement as its payload, so that it proves itself; verification compares the payload
with ``certificate.json`` byte by byte. Envelope, key ids and signatures are those of securesystemslib (extra
``[sign]``), so that other in-toto tools read them. Specification:
https://github.com/secure-systems-lab/dsse (v1).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.certificate.failures import Code, Failure, failure
from pipeline.certificate.folder import read_certificate
from pipeline.errors import SchemaError, StorageError
from pipeline.shards.files import FolderLock, storage_errors, write_atomic

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

ENVELOPE = "certificate.dsse.json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


def keygen(private: Path) -> tuple[Path, str]:
    """Make a key pair: ``private`` (PEM, PKCS #8, readable by its owner alone) and the same with ``.pub``.

    Returns the public key's path and its id. Raises ``StorageError`` where a file is there already: a key is never
    overwritten.
    """
    _need_extra()
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    signer = CryptoSigner.generate_ed25519()
    secret = signer.private_bytes
    open_ = (
        load_pem_private_key(secret, None)
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    public = private.with_name(private.name + ".pub")
    _write_new(public, open_, 0o644)
    _write_new(private, secret, 0o600)
    return public, signer.public_key.keyid


def envelope(content: bytes, keys: Sequence[Path], held: bytes = b"") -> bytes:
    """A signed envelope around the bytes of a certificate.

    Args:
        content: of ``certificate.json``.
        keys: private keys to sign with.
        held: an envelope whose signatures are kept when it is of the same certificate.

    Raises:
        SchemaError: a key cannot be read.
    """
    _need_extra()
    from securesystemslib.dsse import Envelope

    signed = Envelope(content, PAYLOAD_TYPE, {})
    try:
        if _payload(held) == content:
            signed = _parsed(held)
    except ValueError:
        pass  # what is no envelope holds no signature to keep
    for path in keys:
        signed.sign(_private(path))
    value = signed.to_dict()
    value["signatures"].sort(key=lambda signature: str(signature["keyid"]))
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
        stale, signed = _payload(held) != content, _parsed(held)
    except FileNotFoundError:
        return (), [failure(Code.SIGNATURE_MISSING, ENVELOPE, "no such file", f"{threshold} signatures")]
    except ValueError as error:
        return (), [failure(Code.SIGNATURE_INVALID, ENVELOPE, str(error), "a DSSE envelope")]
    if stale:
        return (), [failure(Code.SIGNATURE_STALE, ENVELOPE, "another certificate than certificate.json")]
    signers = tuple(sorted(key.keyid for key in keys if _has_signed(key, signed)))
    if len(signers) < max(threshold, 1):
        found = f"{len(signers)} valid signatures of {len(keys)} trusted keys"
        return signers, [failure(Code.SIGNATURE_INVALID, ENVELOPE, found, f"at least {max(threshold, 1)}")]
    return signers, []


def is_stale(place: Path, content: bytes) -> bool:
    """Whether an envelope is there that is of another certificate, or none at all; needs no key and no extra."""
    try:
        return _payload(place.read_bytes()) != content
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _payload(held: bytes) -> bytes:
    """The statement that an envelope holds, by the standard library alone.

    Raises ``ValueError`` where it is no envelope of an in-toto statement.
    """
    try:
        value = json.loads(held)
        if value["payloadType"] != PAYLOAD_TYPE:
            raise ValueError("not an envelope of an in-toto statement")
        return base64.b64decode(value["payload"], validate=True)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a DSSE envelope: {type(error).__name__}") from error


def _parsed(held: bytes) -> Envelope:
    from securesystemslib.dsse import Envelope

    try:
        return Envelope.from_dict(json.loads(held))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a DSSE envelope: {type(error).__name__}") from error


def _has_signed(key: SSlibKey, signed: Envelope) -> bool:
    """Whether one of the signatures is the key's.

    ``Envelope.verify`` tries a key only on the signature that names it, and stops at the threshold. DSSE says that
    the name is a hint, and the verdict names every signer.
    """
    from securesystemslib.exceptions import UnverifiedSignatureError
    from securesystemslib.signer import Signature

    for signature in signed.signatures.values():
        try:
            key.verify_signature(Signature(key.keyid, signature.signature), signed.pae())
        except UnverifiedSignatureError:
            continue
        return True
    return False


def _private(path: Path) -> CryptoSigner:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise _bad_key(path, type(error).__name__) from error
    return CryptoSigner(key, _ed25519(path, key.public_key()))


def _trusted(folder: Path) -> list[SSlibKey]:
    """Public keys of a folder; raises ``SchemaError`` where there is none, or one that cannot be read."""
    _need_extra()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    keys = {}
    for path in sorted(folder.glob("*.pub")):
        try:
            public = load_pem_public_key(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _bad_key(path, type(error).__name__) from error
        key = _ed25519(path, public)
        keys[key.keyid] = key
    if not keys:
        raise SchemaError(
            "no trusted keys",
            where=str(folder),
            expected="files named *.pub",
            remedy="make one with `keygen`",
        )
    return list(keys.values())


def _ed25519(path: Path, public: PublicKeyTypes) -> SSlibKey:
    from securesystemslib.signer import KEY_TYPE_ED25519, SSlibKey

    try:
        key = SSlibKey.from_crypto(public)
    except ValueError as error:
        raise _bad_key(path, "a key of another kind") from error
    if key.keytype != KEY_TYPE_ED25519:
        raise _bad_key(path, "a key of another kind")
    return key


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


def _need_extra() -> None:
    try:
        import cryptography  # noqa: F401
        import securesystemslib  # noqa: F401
    except ImportError:
        raise SchemaError(
            "signing needs the packages securesystemslib and cryptography",
            remedy="pip install 'cleanroom-pipeline[sign]'",
        ) from None
