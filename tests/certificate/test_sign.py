"""Signatures: what they prove, what they do not, and that other in-toto tools read them."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from pipeline.certificate.sign import ENVELOPE, check, keygen, sign
from pipeline.certificate.verify import Trust, verify
from pipeline.errors import SchemaError, StorageError, VerificationError
from tests import runs


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
    envelope = json.loads((clean / ENVELOPE).read_bytes())
    envelope["signatures"] = [*envelope["signatures"], {**envelope["signatures"][0], "keyid": "f" * 64}]
    (clean / ENVELOPE).write_text(json.dumps(envelope))
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
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

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


def test_securesystemslib_reads_our_envelope_and_we_read_its(clean: Path, keys: list[Path]) -> None:
    pytest.importorskip("securesystemslib")
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

    sign(clean, keys[:1], fsync=False)
    envelope = Envelope.from_dict(json.loads((clean / ENVELOPE).read_bytes()))
    public = load_pem_public_key(Path(f"{keys[0]}.pub").read_bytes())
    theirs = SSlibKey.from_crypto(public)
    assert set(envelope.verify([theirs], 1)) == {theirs.keyid}
    assert envelope.payload == (clean / "certificate.json").read_bytes()
    other = SSlibKey.from_crypto(load_pem_public_key(Path(f"{keys[1]}.pub").read_bytes()))
    with pytest.raises(Exception, match="Accepted signatures do not match threshold"):
        envelope.verify([other], 1)

    envelope.sign(CryptoSigner(load_pem_private_key(keys[1].read_bytes(), None)))
    (clean / ENVELOPE).write_text(json.dumps(envelope.to_dict()))
    verdict = verify(clean, trust=Trust(keys[0].parent, 2))
    assert verdict.ok
    assert theirs.keyid in verdict.signers
    assert base64.b64encode(envelope.payload).decode() == envelope.to_dict()["payload"]
