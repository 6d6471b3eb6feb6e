"""Reading pages of metrics, as Prometheus does."""

import asyncio
import urllib.request

from shuffledp_sim.system.processes import LocalSystem


def fetch(address: str) -> str:
    """What a GET of an http address, "host:port/path", gives. Raises for anything but success."""
    with urllib.request.urlopen(f"http://{address}", timeout=240) as answer:
        body: bytes = answer.read()
    return body.decode()


async def metrics_of(system: LocalSystem) -> dict[str, str]:
    """The page of every service, by name."""
    return {
        name: await asyncio.to_thread(fetch, f"{address}/metrics")
        for name, address in system.metrics.items()
    }
