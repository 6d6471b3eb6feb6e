"""Baseline for the entry node: a gRPC server that receives a submission and only answers.

It uses the same TLS and the same messages.

`python -m bench.bare_server CONFIG RECEIPT_BYTES`, with the configuration file of the node whose
TLS keys it uses. Prints the port it listens on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from shuffledp_core.runtime.config import load_config
from shuffledp_core.runtime.keys import load_roster
from shuffledp_core.transport.tls import server_credentials, server_options
from shuffledp_core.transport.tls_files import TLSFiles
from shuffledp_proto.v1 import node_pb2
from shuffledp_shuffler.config import NodeConfig
from shuffledp_shuffler.service import NAMES

Context = grpc.aio.ServicerContext[node_pb2.SubmitRequest, node_pb2.SubmitResponse]


async def serve(config: NodeConfig, receipt_bytes: int) -> None:
    """Serve until the process is ended; answer each submission with the bytes of a receipt."""
    authority = load_roster(config.roster, config.root_key).tls_authority
    receipt = bytes(receipt_bytes)

    async def submit(
        requests: AsyncIterator[node_pb2.SubmitRequest], _: Context
    ) -> node_pb2.SubmitResponse:
        async for _request in requests:
            pass
        return node_pb2.SubmitResponse(receipt=receipt)

    handler = grpc.stream_unary_rpc_method_handler(
        submit, node_pb2.SubmitRequest.FromString, node_pb2.SubmitResponse.SerializeToString
    )
    server = grpc.aio.server(options=server_options())
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(NAMES[0], {"Submit": handler}),)
    )
    port = server.add_secure_port(
        "127.0.0.1:0", server_credentials(TLSFiles.load(config.keys, authority))
    )
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(load_config(Path(sys.argv[1]), NodeConfig), int(sys.argv[2])))
