"""A gateway takes a renewed TLS pair without a restart."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from gateway_world import connected, gateway

from shuffledp_core.transport.tls import GATEWAY
from shuffledp_ops.keys.pki import Deployment
from shuffledp_ops.keys.renewal import renew


async def served_certificate(deployment: Deployment, address: str) -> x509.Certificate:
    _, writer = await connected(deployment, address)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


def certificate_on_disk(deployment: Deployment) -> x509.Certificate:
    pem = (deployment.keys_of(GATEWAY) / "tls.pem").read_bytes()
    return x509.load_pem_x509_certificate(pem)


async def test_new_connections_get_the_renewed_certificate(
    deployment: Deployment, tmp_path: Path
) -> None:
    async with gateway(deployment, tmp_path / "state") as address:
        first = certificate_on_disk(deployment)
        assert await served_certificate(deployment, address) == first
        renew(deployment.folder, [GATEWAY])
        second = await served_certificate(deployment, address)
        assert second == certificate_on_disk(deployment) != first
        (deployment.keys_of(GATEWAY) / "tls.pem").write_text("nothing")
        assert await served_certificate(deployment, address) == second
