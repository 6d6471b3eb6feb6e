"""A filter of system calls that keeps a student's process off the network without namespaces.

Imported by the worker, with the standard library only. The filter needs no rights, holds for all
that the process starts, and cannot be taken off.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from typing import Final

_X86_64: Final = {
    "socket": 41, "shmget": 29, "semget": 64, "msgget": 68, "ptrace": 101, "mq_open": 240,
    "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "setns": 308, "io_uring_setup": 425,
}  # fmt: skip
_AARCH64: Final = {
    "socket": 198, "shmget": 194, "semget": 190, "msgget": 186, "ptrace": 117, "mq_open": 180,
    "add_key": 217,
    "request_key": 218, "keyctl": 219, "unshare": 97, "setns": 268, "io_uring_setup": 425,
}  # fmt: skip
"""Refused calls: what opens a connection, and what the kernel keeps after the process has ended."""

_MACHINES: Final = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""`AUDIT_ARCH_...` of linux/audit.h, and the numbers of the machine's `asm/unistd.h`."""

_X32: Final = 0x40000000
"""Bit of the numbers of a second set of calls on x86-64; all of them are refused."""

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL: Final = 0x80000000

_SET_SECCOMP: Final = 22
_FILTER_MODE: Final = 2
_SET_NO_NEW_PRIVS: Final = 38


def filter_of(machine: str) -> bytes:
    """The filter as a program of classic BPF.

    Raises KeyError for a machine whose numbers are not listed.
    """
    architecture, calls = _MACHINES[machine]
    numbers = sorted(calls.values())
    program = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_IF_AT_LEAST, len(numbers) + 1, 0, _X32),
        *((_IF_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def refuse_calls() -> None:
    """Install the filter. Raises OSError or KeyError if that is impossible."""
    instructions = filter_of(platform.machine())
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _SET_SECCOMP, _FILTER_MODE, header, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the system calls of this process cannot be filtered")
