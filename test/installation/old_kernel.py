"""Runs a command as on Linux 3.10: system calls that came later are unknown there (on x86-64 those from number 314 on).

usage: old_kernel.py PROGRAM [ARGUMENT...]

Children have the filter, too. What an old kernel does otherwise within the calls that it has is not shown: flags that it
does not know, what /proc tells. tools/test-systems runs agents so.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

UNKNOWN_FROM = 314
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x35, 0x06
FAIL, ALLOW = 0x00050000, 0x7FFF0000


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def main():
    if platform.machine() != "x86_64":
        sys.exit("old_kernel.py: the numbers of system calls are those of x86-64")
    steps = [
        (LOAD, 0, 0, 0),
        (JUMP_IF_AT_LEAST, 0, 1, UNKNOWN_FROM),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        sys.exit(f"old_kernel.py: no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
