"""Runs in the `keys` service: issues the proxy's certificate for browsers on this machine.

pages-certificate.py FOLDER makes an authority and a certificate for localhost: proxy.pem for the
proxy, and ca.pem for browsers that are to trust it. The authority's key is not kept.
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

from shuffledp_ops.keys.authority import Authority, pem

folder = Path(sys.argv[1])
now = datetime.now(UTC)
authority = Authority.create("pages", now)
authority.issue(folder, "localhost", ("127.0.0.1",), now)
parts = [(folder / name).read_bytes() for name in ("tls.pem", "tls-key.pem")]
(folder / "proxy.pem").write_bytes(b"".join(parts))
(folder / "tls.pem").unlink()
(folder / "tls-key.pem").unlink()
(folder / "ca.pem").write_bytes(pem(authority.certificate))
