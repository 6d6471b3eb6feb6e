"""Who gives way when there is no room: the many, never the one beside them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp_core.errors import BusyError
from shuffledp_core.runtime.config import Limits
from shuffledp_core.transport.connections import Connections, peer_of
from shuffledp_core.transport.crowd import Crowd
from shuffledp_core.transport.doorway import Slots

PEERS = st.sampled_from([f"ipv4:127.0.0.{host}:{port}" for host in (1, 2, 3) for port in (5, 6)])


def crowd_of(peers: list[str]) -> Crowd[int]:
    crowd: Crowd[int] = Crowd()
    for item, peer in enumerate(peers):
        crowd.add(item, peer)
    return crowd


def test_the_one_call_of_another_address_stays_however_old_it_is() -> None:
    crowd = crowd_of(["ipv4:127.0.0.1:5", *["ipv4:127.0.0.2:5"] * 9, *["ipv4:127.0.0.2:6"] * 3])
    assert [crowd.take_one() for _ in range(11)][:6] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]  # the fuller connection, the oldest first
    assert 0 in crowd


@given(st.lists(PEERS, min_size=1))
def test_whoever_gives_way_is_the_oldest_of_the_fullest_connection_of_the_address_with_most(
    peers: list[str],
) -> None:
    crowd = crowd_of(peers)
    taken = crowd.take_one()
    hosts = Counter(peer.rpartition(":")[0] for peer in peers)
    host = peers[taken].rpartition(":")[0]
    assert hosts[host] == max(hosts.values())
    connections = Counter(peer for peer in peers if peer.startswith(f"{host}:"))
    assert connections[peers[taken]] == max(connections.values())
    assert peers.index(peers[taken]) == taken
    assert len(crowd) == len(peers) - 1


@given(st.lists(PEERS))
def test_what_waits_no_more_leaves_nothing_behind(peers: list[str]) -> None:
    crowd = crowd_of(peers)
    for item in (*range(len(peers)), 0, 99):
        crowd.discard(item)
    crowd.add(0, "ipv4:127.0.0.9:1")
    assert crowd.take_one() == 0
    assert len(crowd) == 0


def test_a_network_of_one_customer_is_one_address() -> None:
    """Under IPv6 a caller has as many addresses as it likes."""
    crowd = crowd_of(
        [*[f"ipv6:%5B2001:db8::{number:x}%5D:7" for number in range(9)], "ipv6:[2001:db8:0:1::1]:7"]
    )
    assert crowd.has_larger_share("ipv4:192.0.2.1:7")
    assert not crowd.has_larger_share("ipv6:[2001:db8::ffff]:7")
    for _ in range(8):
        crowd.take_one()
    assert 9 in crowd
    assert not crowd.has_larger_share("ipv4:192.0.2.1:7")


async def test_equal_shares_of_slots_are_not_taken_away() -> None:
    slots = Slots(4)
    ended: list[str] = []

    async def occupy(peer: str, entered: asyncio.Event) -> None:
        try:
            async with slots.hold(peer):
                entered.set()
                await asyncio.Event().wait()
        except BusyError:
            ended.append(peer)
            entered.set()

    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, host in enumerate([1, 1, 1, 1, 1, 2, 3, 2, 3]):
            entered = asyncio.Event()
            tasks.append(group.create_task(occupy(f"ipv4:192.0.2.{host}:{number}", entered)))
            await entered.wait()
        # The fifth of address 1 finds only its own address there; 2 and 3 take its first two; then
        # shares are equal.
        for _ in range(100):  # turns, in which evicted tasks end
            await asyncio.sleep(0)
        assert sorted(ended) == sorted(
            [f"ipv4:192.0.2.{peer}" for peer in ("1:4", "1:0", "1:1", "2:7", "3:8")]
        )
        for task in tasks:
            task.cancel()


async def test_a_time_out_of_the_answer_itself_is_no_eviction() -> None:
    with pytest.raises(TimeoutError):
        async with Slots(1).hold("ipv4:192.0.2.1:7"):
            raise TimeoutError


def test_the_peers_of_grpc_are_those_of_the_kernel() -> None:
    assert peer_of("ipv4:127.0.0.1:5000") == ("127.0.0.1", 5000)
    assert peer_of("ipv6:%5B::1%5D:5000") == peer_of("ipv6:[::1]:5000") == ("::1", 5000)
    assert peer_of("ipv6:[::ffff:10.0.0.7]:5000") == ("10.0.0.7", 5000)
    assert peer_of("unix:/tmp/socket") is None


async def test_the_surplus_is_taken_from_the_crowd_and_never_from_who_is_known() -> None:
    connections = Connections(Limits(connections=6), lambda: None)
    found = {("10.0.0.1", port): port for port in range(6)} | {
        ("10.0.0.2", 1): 7,
        ("10.0.0.3", 1): 8,
    }
    connections.begin("ipv4:10.0.0.1:0", known=True)
    connections.begin("ipv4:10.0.0.1:1", known=False)
    chosen = connections._surplus(found, 3)
    assert {host for host, _ in chosen} == {"10.0.0.1"}
    assert not {("10.0.0.1", 0), ("10.0.0.1", 1)} & chosen  # a party, and one that is calling
    assert connections._surplus(found, 99) == set(found) - {("10.0.0.1", 0)}
    assert connections._surplus(found, -1) == set()
