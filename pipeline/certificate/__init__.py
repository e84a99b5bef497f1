"""The certificate: statement, digests, verification, signatures."""
