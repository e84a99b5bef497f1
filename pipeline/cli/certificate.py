"""``verify``, ``keygen`` and ``sign``: whether an output folder is what its certificate says, and whose it is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.certificate.failures import Verdict


class LevelName(StrEnum):
    """How closely the command checks the shards (see ``pipeline.certificate.verify.Level``)."""

    FULL = "full"
    CACHED = "cached"
    STAT = "stat"


def verify_command(
    clean: Annotated[str, typer.Argument(help="Output folder of a run, or its URL.", show_default=False)],
    level: Annotated[
        LevelName, typer.Option(help="full: every byte; cached: what changed since; stat: names and sizes.")
    ] = LevelName.FULL,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="Fail unless a trusted key has signed.")
    ] = False,
    trusted_keys: Annotated[Path | None, typer.Option(help="Folder of trusted public keys (*.pub).")] = None,
    threshold: Annotated[int, typer.Option(min=1, help="How many trusted keys must have signed.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Unknown files are failures, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Verify CLEAN against its certificate. Every failure is listed with its remedy; exit 5 when there is one."""
    import json
    from dataclasses import replace

    from pipeline.certificate.verify import Level, Trust, verify
    from pipeline.errors import Exit, SchemaError
    from pipeline.stores.sync import fetched

    if require_signature and trusted_keys is None:
        raise SchemaError(
            "--require-signature needs --trusted-keys", remedy="name the folder of trusted public keys"
        )
    trust = Trust(trusted_keys, threshold) if trusted_keys is not None else None
    with fetched(clean) as folder:
        verdict = replace(verify(folder, Level(level.value), strict=strict, trust=trust), folder=clean)
    if as_json:
        typer.echo(json.dumps(verdict.to_json(), indent=2))
    else:
        _print_verdict(verdict)
    raise typer.Exit(Exit.OK if verdict.ok else Exit.VERIFY)


def keygen_command(
    private: Annotated[
        Path, typer.Argument(help="Where the private key goes; the public one beside it, .pub.")
    ],
) -> None:
    """Make an ed25519 key pair for signing certificates."""
    from pipeline.certificate.sign import keygen

    public, name = keygen(private)
    typer.echo(f"private key {private} (keep it), public key {public}, id {name}")


def sign_command(
    clean: Annotated[Path, typer.Argument(help="Output folder of a run.", show_default=False)],
    key: Annotated[list[Path], typer.Option("--key", help="Private key; may be given several times.")],
) -> None:
    """Sign the certificate of CLEAN (DSSE envelope, ed25519); signatures of other keys stay."""
    from pipeline.certificate.sign import sign

    typer.echo(f"signed {sign(clean, key)}")


def _print_verdict(verdict: Verdict) -> None:
    for item in (*verdict.failures, *verdict.notes):
        mark = "FAIL" if item in verdict.failures else "note"
        typer.echo(f"{mark} {item}")
        typer.echo(f"     to do: {item.remedy}")
    size = f"{verdict.shards:,} shards, {verdict.rows:,} rows, {verdict.bytes / 2**20:,.1f} MiB"
    signed = f", signed by {len(verdict.signers)} trusted key(s)" if verdict.signers else ""
    if verdict.ok:
        typer.echo(f"verified {verdict.folder} ({verdict.level}): {size}, root {verdict.root[:20]}{signed}")
    else:
        typer.echo(f"NOT verified {verdict.folder}: {len(verdict.failures)} failure(s)")
