"""Boards and tiles for a web server: the files that the analyst serves, at the gateway's paths."""

from __future__ import annotations

import stat
from pathlib import Path

from analyst_world import World

from shuffledp_client.http_api import BOARD, TILE
from shuffledp_core.documents.models import Result
from shuffledp_proto.v1 import analyst_pb2


def path_of(public: Path, pattern: str, result: Result, index: int = 0) -> Path:
    filled = pattern.format(round_id=result.round_id, index=index)
    return public / filled.removeprefix("/")


async def test_boards_and_tiles_lie_at_the_paths_of_the_gateway(world: World) -> None:
    public = world.folder / "public"
    await world.stop_analyst()
    world.options["public"] = public
    await world.start_analyst()
    result = await world.whole_round()
    board = path_of(public, BOARD, result)
    assert board.read_bytes() == await world.board(result.round_id)
    async with world.reading() as stub:
        answer = await stub.GetTile(analyst_pb2.GetTileRequest(round_id=result.round_id))
    tile = path_of(public, TILE, result)
    assert tile.read_bytes() == answer.tile
    assert len(answer.tile) == len(board.read_bytes())  # one tile
    for file in (board, tile):
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o755


async def test_a_round_is_published_without_room_for_the_web_server(world: World) -> None:
    file = world.folder / "a file"
    file.write_bytes(b"")
    await world.stop_analyst()
    world.options["public"] = file / "below"
    await world.start_analyst()
    assert (await world.whole_round()).outcome == "published"
    result = await world.whole_round()
    assert await world.board(result.round_id)


async def test_a_failed_round_has_no_files_for_the_web_server(world: World) -> None:
    public = world.folder / "public"
    await world.stop_analyst()
    world.options["public"] = public
    await world.start_analyst()
    round_id = await world.open()
    await world.abort(round_id)
    await world.ended(round_id)
    assert not public.exists()
