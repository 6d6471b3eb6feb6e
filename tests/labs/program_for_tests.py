"""A student's file that tries everything, for the tests of the sandbox."""

from __future__ import annotations

SOURCE = """
import os
import sys
from fractions import Fraction

import numpy as np


def kinds():
    return [None, True, 7, 2**200, -(2**70), 0.5, "ä", b"\\x00\\xff", Fraction(1, 3), (1, [2, {"a": 1, 3: b"x"}])]


def same(*values, **named):
    return [values, named]


def numpy_values():
    return [np.int64(3), np.float64(0.5), np.arange(3), np.bool_(True)]


def seals(data):
    import nacl.public

    return len(nacl.public.SealedBox(nacl.public.PrivateKey.generate().public_key).encrypt(data))


def stub():
    raise NotImplementedError


def divide(a, b):
    return a / b


def refuse():
    raise ValueError("this value is refused")


def leave():
    sys.exit(0)


def crash():
    os._exit(0)


def killed():
    os.kill(os.getpid(), 9)


def endless():
    while True:
        pass


def flood():
    while True:
        print("x" * 100_000)


def talk():
    print("a word")
    sys.stdout.flush()
    os.write(1, b"straight to the pipe")
    return 1


def murmur():
    print("seven users")
    print("and no end of line", end="")
    return 1


def mute():
    sys.stdout = None
    return 1


def forge():
    for number in range(3, 64):
        try:
            os.write(number, b"\\x00\\x00\\x00\\x0e[\\"done\\",75,\\"\\"]")
        except OSError:
            pass
    return 0


def memory():
    return len(bytearray(10**11))


def forks():
    import time

    made = 0
    try:
        while made < 10_000:
            if os.fork() == 0:
                os.setsid()
                time.sleep(1000)
            made += 1
    except OSError:
        pass
    return made


def connect():
    import socket

    socket.create_connection(("127.0.0.1", 22), timeout=5)


def files():
    return sorted(os.listdir("/")), os.getcwd(), os.listdir(".")


def write(path, size):
    with open(path, "wb") as file:
        file.write(bytes(size))
    return os.path.exists(path)


def fill():
    for number in range(64):
        with open(f"part-{number}", "wb") as file:
            file.write(os.urandom(2**20) * 32)
    while True:
        pass


def read(path):
    with open(path) as file:
        return file.read()


def environment():
    return dict(os.environ)


def strange():
    return object()


def keyed():
    return {(1, 2): 3}


def deep():
    value = []
    for _ in range(50):
        value = [value]
    return value


def huge():
    return bytes(20_000_000)


def unspeakable():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    raise Odd


class Store:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value

    def chance(self, coins):
        return coins.below(2)


def look(store):
    return store.value


def mapped(function, values):
    return [function(value) for value in values]


def misuse(function, given):
    return function(*range(given))


def surroundings(coins):
    coins.below(2)
    frame, seen = sys._getframe(), []
    while frame is not None:
        seen += [frame.f_code.co_name, *sorted(frame.f_locals)]
        if "request" in frame.f_locals:
            name, function, arguments, *more = frame.f_locals["request"]
            seen += [name, function, str([type(each).__name__ for each in arguments]), str(more)]
        frame = frame.f_back
    return (type(coins).__name__, *sorted(vars(coins)), *seen)


def krr(symbols, blanket, value, coins):
    return coins.below(symbols) if coins.flip(blanket) else value


def laplace(gamma, coins):
    size = 0
    while coins.flip_exp(gamma):
        size += 1
    return size


def sure(coins):
    return coins.flip(1), coins.flip(0), coins.flip_exp(0), coins.below(1)


def middle(coins, value):
    return coins.below(2) + value


def stored(store, coins):
    return store.add(coins.below(2))


def wide(coins):
    return coins.below(2**53) / 2**53 < 0.5


def large(coins):
    return sum(coins.below(2) for _ in range(40))


def unending(coins):
    while not coins.flip(Fraction(1, 2)):
        pass
    return 1


def unhashable(coins):
    return {"a": coins.below(2)}


def bad_flip(coins):
    return coins.flip(Fraction(3, 2))


def by_random(coins):
    import random

    return coins.below(2) if random.random() < 2 else 7


def by_file(coins):
    import tempfile

    with tempfile.NamedTemporaryFile(dir=".") as file:
        file.write(b"kept")
    return coins.below(2)


def by_numpy(coins):
    return coins.below(2) if np.random.rand() < 2 else 7


def by_loading_again(coins):
    import sys

    sys.modules.pop("random", None)
    import random

    return coins.below(2) if random.random() < 2 else 7


def by_loading(coins):
    import statistics  # loads `random`, and draws nothing

    return statistics.median([coins.below(2)])


def by_system(coins):
    import secrets

    secrets.randbelow(3)
    return coins.below(2)


_seen = []


def remembers(coins):
    _seen.append(1)
    return coins.below(2) + len(_seen)
"""  # noqa: E501
