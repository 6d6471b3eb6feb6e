"""host:port, and IPv6 hosts, which stand in brackets there and nowhere else."""

from __future__ import annotations

import pytest

from shuffledp_core.runtime.addresses import host_and_port, is_address


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("h:1", "h", 1),
        ("192.0.2.1:443", "192.0.2.1", 443),
        ("[::1]:443", "::1", 443),
        ("[2001:db8::7]:65535", "2001:db8::7", 65535),
        ("a.example:7443", "a.example", 7443),
    ],
)
def test_an_address_is_taken_apart_as_sockets_want_it(address: str, host: str, port: int) -> None:
    assert is_address(address)
    assert host_and_port(address) == (host, port)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "h",
        ":1",
        "h:",
        "h:0",
        "h:65536",
        "h:+1",
        "h:\u0663",
        "a b:1",
        "::1:443",
        "[::1]",
        "[h]:443",
        "[]:443",
        "x..y:1",
    ],
)
def test_what_no_socket_could_be_asked_for_is_none(address: str) -> None:
    assert not is_address(address)


def test_port_0_lets_the_system_choose_where_one_listens() -> None:
    assert is_address("127.0.0.1:0", least=0)
    assert not is_address("127.0.0.1:0")
