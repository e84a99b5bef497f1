"""Signatures: what they prove, what they do not, and that they are those of the specification."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from pipeline.certificate.sign import ENVELOPE, check, envelope, is_stale, keygen, sign
from pipeline.certificate.verify import Trust, verify
from pipeline.errors import SchemaError, StorageError, VerificationError
from tests import runs

SIGNED = Path(__file__).parent / "signed"


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    runs.run(tmp_path / "clean", {"a.csv": (20, 0)})
    return tmp_path / "clean"


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    """Two trusted keys and one that is not."""
    (tmp_path / "trusted").mkdir()
    (tmp_path / "other").mkdir()
    places = [tmp_path / "trusted" / "a", tmp_path / "trusted" / "b", tmp_path / "other" / "c"]
    for place in places:
        keygen(place)
    return places


def codes(clean: Path, keys: list[Path], threshold: int = 1) -> list[str]:
    return [failure.code for failure in verify(clean, trust=Trust(keys[0].parent, threshold)).failures]


def test_a_key_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    public, name = keygen(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert public == tmp_path / "key.pub"
    assert len(name) == 64
    with pytest.raises(StorageError, match="is there already"):
        keygen(tmp_path / "key")


def test_a_signature_of_a_trusted_key_holds(clean: Path, keys: list[Path]) -> None:
    assert codes(clean, keys) == ["signature_missing"]
    sign(clean, keys[:1], fsync=False)
    verdict = verify(clean, strict=True, trust=Trust(keys[0].parent))
    assert verdict.ok
    assert len(verdict.signers) == 1


def test_the_threshold_counts_keys_not_signatures(clean: Path, keys: list[Path]) -> None:
    sign(clean, [keys[0], keys[0]], fsync=False)
    assert codes(clean, keys, 2) == ["signature_invalid"]
    value = json.loads((clean / ENVELOPE).read_bytes())
    value["signatures"] = [*value["signatures"], {**value["signatures"][0], "keyid": "f" * 64}]
    (clean / ENVELOPE).write_text(json.dumps(value))
    assert codes(clean, keys, 2) == ["signature_invalid"]
    sign(clean, keys[1:2], fsync=False)
    assert codes(clean, keys, 2) == []


def test_a_key_that_is_not_trusted_counts_for_nothing(clean: Path, keys: list[Path]) -> None:
    sign(clean, keys[2:], fsync=False)
    assert codes(clean, keys) == ["signature_invalid"]


def test_a_signature_goes_with_its_certificate(clean: Path, keys: list[Path]) -> None:
    sign(clean, keys[:1], fsync=False)
    held = (clean / ENVELOPE).read_bytes()
    runs.run(clean, {"a.csv": (20, 1)})
    assert not (clean / ENVELOPE).exists()
    (clean / ENVELOPE).write_bytes(held)
    assert codes(clean, keys) == ["signature_stale"]
    assert [failure.code for failure in verify(clean).failures] == ["signature_stale"]


def test_a_run_signs_what_it_publishes(clean: Path, keys: list[Path]) -> None:
    runs.run(clean, {"a.csv": (20, 1)}, keys=keys[:2])
    assert codes(clean, keys, 2) == []
    before = (clean / ENVELOPE).stat().st_mtime_ns
    runs.run(clean, {"a.csv": (20, 1)}, keys=keys[:2])
    assert (clean / ENVELOPE).stat().st_mtime_ns == before


def test_every_changed_byte_of_the_envelope_is_found(clean: Path, keys: list[Path]) -> None:
    sign(clean, keys[:1], fsync=False)
    path, content = clean / ENVELOPE, (clean / "certificate.json").read_bytes()
    whole = path.read_bytes()
    signature = json.loads(whole)["signatures"][0]["sig"].encode()
    start = whole.index(signature)
    for offset in range(0, len(whole), 1 if len(whole) < 2_000 else 37):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        _, faults = check(path, content, keys[0].parent, 1)
        harmless = json_or_none(path) == json.loads(whole) or start - 80 <= offset < start
        assert faults or harmless, offset
    for offset in range(start, start + len(signature) - 2):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        assert check(path, content, keys[0].parent, 1)[1]


def json_or_none(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"payloadType": "x"}', b"\xff", b"[" * 100_000])
def test_what_is_no_envelope_is_no_signature(clean: Path, keys: list[Path], content: bytes) -> None:
    (clean / ENVELOPE).write_bytes(content)
    assert "signature_invalid" in codes(clean, keys)


def test_a_certificate_is_checked_before_it_is_signed(clean: Path, keys: list[Path]) -> None:
    path = clean / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b'"certified":20', b'"certified":21'))
    with pytest.raises(VerificationError):
        sign(clean, keys[:1], fsync=False)


@pytest.mark.parametrize("content", ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_key_that_cannot_be_read_is_named(clean: Path, keys: list[Path], content: str) -> None:
    bad = keys[0].parent / "bad.pub"
    bad.write_text(content)
    with pytest.raises(SchemaError, match="not a usable key") as caught:
        verify(clean, trust=Trust(bad.parent))
    assert caught.value.where == str(bad)
    with pytest.raises(SchemaError, match="not a usable key"):
        sign(clean, [bad], fsync=False)


def test_a_key_of_another_kind_is_named(clean: Path, tmp_path: Path) -> None:
    key = X25519PrivateKey.generate()
    path = tmp_path / "key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    with pytest.raises(SchemaError) as caught:
        sign(clean, [path], fsync=False)
    assert caught.value.found == "a key of another kind"


def test_no_trusted_keys_trust_nothing(clean: Path, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no trusted keys"):
        verify(clean, trust=Trust(tmp_path / "none"))


def test_an_envelope_holds_by_the_specification_and_plain_cryptography(clean: Path, keys: list[Path]) -> None:
    """The oracle is not the library that signs: the signed bytes are written out, the key verifies them itself."""
    sign(clean, keys[:2], fsync=False)
    content = (clean / "certificate.json").read_bytes()
    held = json.loads((clean / ENVELOPE).read_bytes())
    assert held["payloadType"] == "application/vnd.in-toto+json"
    assert base64.b64decode(held["payload"], validate=True) == content
    signatures = {s["keyid"]: base64.b64decode(s["sig"], validate=True) for s in held["signatures"]}
    assert len(signatures) == 2
    for place in keys[:2]:
        public = load_pem_public_key(place.with_name(place.name + ".pub").read_bytes())
        assert isinstance(public, Ed25519PublicKey)
        public.verify(signatures[key_id(public)], signed_bytes(content))
        with pytest.raises(InvalidSignature):
            public.verify(signatures[key_id(public)], signed_bytes(content + b" "))


def test_an_envelope_of_plain_cryptography_is_trusted(clean: Path, keys: list[Path]) -> None:
    content = (clean / "certificate.json").read_bytes()
    private = load_pem_private_key(keys[0].read_bytes(), None)
    assert isinstance(private, Ed25519PrivateKey)
    signature = base64.b64encode(private.sign(signed_bytes(content))).decode()
    for name in (key_id(private.public_key()), "a name of its own", ""):  # key ids are hints
        value = {
            "payload": base64.b64encode(content).decode(),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"keyid": name, "sig": signature}],
        }
        (clean / ENVELOPE).write_text(json.dumps(value))
        verdict = verify(clean, trust=Trust(keys[0].parent))
        assert verdict.ok
        assert verdict.signers == (key_id(private.public_key()),)


def test_what_was_signed_before_still_verifies(tmp_path: Path) -> None:
    """Keys and an envelope of version 0.1.0, which signed by code of its own; Ed25519 signs the same bytes alike."""
    held = (SIGNED / ENVELOPE).read_bytes()
    content = base64.b64decode(json.loads(held)["payload"])
    name = "fcea6d077fd294bd2c89903ab33a87e5a7a9fe8c36c1c85734996af49a130985"
    assert check(SIGNED / ENVELOPE, content, SIGNED, 1) == ((name,), [])
    assert envelope(content, [SIGNED / "key"]) == held
    assert not is_stale(SIGNED / ENVELOPE, content)
    assert is_stale(SIGNED / ENVELOPE, content + b" ")
    keygen(tmp_path / "other")
    assert [f.code for f in check(SIGNED / ENVELOPE, content, tmp_path, 1)[1]] == ["signature_invalid"]


def signed_bytes(content: bytes) -> bytes:
    """DSSE's pre-authentication encoding (protocol.md, v1), written out."""
    return b" ".join(
        [b"DSSEv1", b"28", b"application/vnd.in-toto+json", str(len(content)).encode("ascii"), content]
    )


def key_id(key: Ed25519PublicKey) -> str:
    """sha256 over the canonical JSON of the public key."""
    public = key.public_bytes_raw().hex()
    facts = f'{{"keytype":"ed25519","keyval":{{"public":"{public}"}},"scheme":"ed25519"}}'
    return hashlib.sha256(facts.encode("ascii")).hexdigest()
