"""Runs in the `ray-keys` service: creates the keys that one Ray cluster's machines share, once.

ray-keys.py ADDRESS.. makes an authority, a certificate with these addresses, and a token in /keys.
The authority's key is not kept.
"""

import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

from shuffledp_core.runtime.files import write_new
from shuffledp_ops.keys.authority import Authority, pem

KEYS = Path("/keys")

if not (KEYS / "complete").exists():
    now = datetime.now(UTC)
    authority = Authority.create("ray", now)
    for rest in KEYS.iterdir():  # of an attempt that did not end
        rest.unlink()
    authority.issue(KEYS, "ray", tuple(sys.argv[1:]), now)
    (KEYS / "ca.pem").write_bytes(pem(authority.certificate))
    write_new(KEYS / "token", secrets.token_hex(32).encode())
    (KEYS / "complete").touch()
