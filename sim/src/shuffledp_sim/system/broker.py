"""A local MQTT 3.1.1 broker for demos and tests: `python -m shuffledp_sim.system.broker PORT`.

amqtt on the loopback interface, without authentication: the broker is untrusted by design. Any
other MQTT 3.1.1 broker can take its place by configuration.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from amqtt.broker import Broker

from shuffledp_core.errors import UsageError


async def serve(port: int) -> None:
    """Runs the broker on 127.0.0.1 until SIGTERM or SIGINT."""
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {
                "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
            },
        }
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await broker.start()
    await stopped.wait()
    await broker.shutdown()


def main() -> None:
    """Entry point; one argument, the port."""
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        raise UsageError("usage: python -m shuffledp_sim.system.broker PORT")
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
