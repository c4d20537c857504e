# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The system calls that the process of a guest's kernel cannot make (seccomp).

The process has its files and sockets when it starts, and needs no other sockets,
namespaces or mounts. Landlock (landlock.py) restricts where it writes. This filter
refuses what Landlock has no right for: setuid files, device nodes, and changes of a
file's mode, owner and times. For a guest with --write attribute_broker.py makes
these changes.
"""

import ctypes
import errno
import os
import struct
from typing import Dict, List, NamedTuple, Tuple

from . import landlock

SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_FILTER_FLAG_NEW_LISTENER = 1 << 2, 1 << 3
SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 1 << 5
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_USER_NOTIF = 0x7FFF0000, 0x00050000, 0x7FC00000
# The instructions of the filter, and the offsets in struct seccomp_data.
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16

S_ISUID, S_ISGID, S_IFMT, S_IFCHR, S_IFBLK = 0o4000, 0o2000, 0o170000, 0o020000, 0o060000
O_ACCMODE, O_CREAT, O_TRUNC, O_TMPFILE = 0o3, 0o100, 0o1000, 0o20000000
AF_UNIX, SOCK_TYPE_MASK, SOCK_STREAM, SOCK_SEQPACKET = 1, 0xF, 1, 5
F_SETOWN, F_SETOWN_EX = 8, 15
PR_SET_PDEATHSIG, SIGKILL = 1, 9
# Of terminals and all files: they change nothing but how this process sees the file.
TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC = (
    *(0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452),
)
IOCTL_TYPE_MASK, KVM_IOCTL_TYPE = 0xFF00, 0xAE00
CLONE_NEW_FLAGS = (
    *(0x00020000, 0x02000000, 0x04000000),  # NS, CGROUP, UTS
    *(0x08000000, 0x10000000, 0x20000000, 0x40000000),  # IPC, USER, PID, NET
)
ALL_BITS = 0xFFFFFFFF

# Later system calls do not exist for the process.
LAST_NUMBER = 471
# From 424 on the numbers are those of all architectures.
COMMON_NUMBERS = {
    **{"pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426},
    **{"io_uring_register": 427, "clone3": 435, "openat2": 437, "fchmodat2": 452},
    **{"pidfd_getfd": 438, "process_madvise": 440},
    **{"setxattrat": 463, "removexattrat": 466, "file_setattr": 469},
}
# fmt: off
NUMBERS: Dict[str, Dict[str, int]] = {
    "x86_64": {
        "socket": 41, "connect": 42, "bind": 49, "listen": 50, "socketpair": 53,
        "fcntl": 72, "prctl": 157, "process_vm_writev": 311,
        "unshare": 272, "setns": 308, "clone": 56, "open_by_handle_at": 304,
        "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66,
        "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
        "mq_open": 240, "mq_unlink": 241, "add_key": 248, "request_key": 249, "keyctl": 250,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300,
        "prlimit64": 302, "setpriority": 141, "ioprio_set": 251, "sched_setscheduler": 144,
        "sched_setparam": 142, "sched_setattr": 314, "migrate_pages": 256, "move_pages": 279,
        "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "kill": 62, "tgkill": 234,
        "setpgid": 109,
        "ioctl": 16, "open": 2, "openat": 257, "creat": 85, "mknod": 133, "mknodat": 259,
        "truncate": 76,
        "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94,
        "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
        "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
    },
    "aarch64": {
        "socket": 198, "connect": 203, "bind": 200, "listen": 201, "socketpair": 199,
        "fcntl": 25, "prctl": 167, "process_vm_writev": 271,
        "unshare": 97, "setns": 268, "clone": 220, "open_by_handle_at": 265,
        "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "semop": 193, "semctl": 191,
        "semtimedop": 192, "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187,
        "mq_open": 180, "mq_unlink": 181, "add_key": 217, "request_key": 218, "keyctl": 219,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "fanotify_init": 262,
        "prlimit64": 261, "setpriority": 140, "ioprio_set": 30, "sched_setscheduler": 119,
        "sched_setparam": 118, "sched_setattr": 274, "migrate_pages": 238, "move_pages": 239,
        "tkill": 130, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "kill": 129, "tgkill": 131,
        "setpgid": 154,
        "ioctl": 29, "openat": 56, "mknodat": 33, "truncate": 45,
        "fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "utimensat": 88,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
        "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
    },
}
# fmt: on
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}

NETWORK = ("socket", "connect", "bind", "listen")
NAMESPACES = ("unshare", "setns")
IPC = (
    *("shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop"),
    *("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink"),
)
KERNEL_INTERFACES = (
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at"),
    *("bpf", "perf_event_open", "userfaultfd", "fanotify_init"),
    *("add_key", "request_key", "keyctl"),
    *("pidfd_getfd", "process_vm_writev", "process_madvise"),
)
SCHEDULING = (
    *("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    *("migrate_pages", "move_pages"),
)
# setpgid(): the process could join another group of its session, and signal that.
SIGNALS = ("tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal", "setpgid")
# A filter cannot read their arguments, which are in memory. Libraries then use the older calls.
CALLS_WITH_STRUCTURES = ("clone3", "openat2")
EXTENDED_ATTRIBUTES = (
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "file_setattr"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
FILE_ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
)
# Those that attribute_broker.py makes, if their file is in a folder of --write.
BROKER_CALLS = (
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "utimes", "utimensat"),
)


class Condition(NamedTuple):
    """argument & mask == value."""

    argument: int
    mask: int
    value: int


class Rule(NamedTuple):
    """The action for a system call whose arguments meet all conditions. The first such rule counts."""

    names: Tuple[str, ...]
    action: int
    conditions: Tuple[Condition, ...] = ()


def refuse(number: int) -> int:
    return SECCOMP_RET_ERRNO | number


def make_rules(
    landlock_version: int, pid: int, with_broker: bool, can_signal_children: bool = False
) -> List[Rule]:
    """What Landlock of this version does not restrict, for the process with the PID.

    with_broker: BROKER_CALLS are for attribute_broker.py; else the process makes them, but to no
    setuid file. can_signal_children: without a broker, and so also other processes.
    """
    not_permitted = refuse(errno.EPERM)
    rules = [
        Rule(CALLS_WITH_STRUCTURES, refuse(errno.ENOSYS)),
        Rule(NETWORK + NAMESPACES + IPC, not_permitted),
        # User mode without softrdma's patches interrupts its other processors by it.
        Rule(("rt_tgsigqueueinfo",), SECCOMP_RET_ALLOW, (Condition(0, ALL_BITS, pid),)),
        Rule(KERNEL_INTERFACES + SCHEDULING + SIGNALS + EXTENDED_ATTRIBUTES, not_permitted),
        # The signals of a file's owner.
        Rule(
            ("fcntl",),
            SECCOMP_RET_ALLOW,
            (Condition(1, ALL_BITS, F_SETOWN), Condition(2, ALL_BITS, pid)),
        ),
        Rule(("fcntl",), not_permitted, (Condition(1, ALL_BITS, F_SETOWN),)),
        Rule(("fcntl",), not_permitted, (Condition(1, ALL_BITS, F_SETOWN_EX),)),
        # It ends with softrdma.
        Rule(
            ("prctl",),
            SECCOMP_RET_ALLOW,
            (Condition(0, ALL_BITS, PR_SET_PDEATHSIG), Condition(1, ALL_BITS, SIGKILL)),
        ),
        Rule(("prctl",), not_permitted, (Condition(0, ALL_BITS, PR_SET_PDEATHSIG),)),
        # Of this process; not of others.
        Rule(("prlimit64",), SECCOMP_RET_ALLOW, (Condition(0, ALL_BITS, 0),)),
        Rule(("prlimit64",), not_permitted),
    ]
    for flag in CLONE_NEW_FLAGS:
        rules.append(Rule(("clone",), not_permitted, (Condition(0, flag, flag),)))
    # A datagram socket, which SOCK_RAW can be, too, can send to any address of its family.
    for kind in (SOCK_STREAM, SOCK_SEQPACKET):
        conditions = (Condition(0, ALL_BITS, AF_UNIX), Condition(1, SOCK_TYPE_MASK, kind))
        rules.append(Rule(("socketpair",), SECCOMP_RET_ALLOW, conditions))
    rules.append(Rule(("socketpair",), not_permitted))
    # Others change files that are open for reading, and terminals.
    for request in (TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC):
        rules.append(Rule(("ioctl",), SECCOMP_RET_ALLOW, (Condition(1, ALL_BITS, request),)))
    kvm = Condition(1, IOCTL_TYPE_MASK, KVM_IOCTL_TYPE)
    rules.append(Rule(("ioctl",), SECCOMP_RET_ALLOW, (kvm,)))
    rules.append(Rule(("ioctl",), refuse(errno.ENOTTY)))
    for bit in (S_ISUID, S_ISGID):
        for creating in (O_CREAT, O_TMPFILE):
            for name, flags, mode in (("open", 1, 2), ("openat", 2, 3)):
                conditions = (Condition(flags, creating, creating), Condition(mode, bit, bit))
                rules.append(Rule((name,), not_permitted, conditions))
        rules.append(Rule(("creat", "mknod"), not_permitted, (Condition(1, bit, bit),)))
        rules.append(Rule(("mknodat",), not_permitted, (Condition(2, bit, bit),)))
    for kind in (S_IFCHR, S_IFBLK):
        rules.append(Rule(("mknod",), not_permitted, (Condition(1, S_IFMT, kind),)))
        rules.append(Rule(("mknodat",), not_permitted, (Condition(2, S_IFMT, kind),)))
    if landlock_version < landlock.TRUNCATE_VERSION:
        rules.append(Rule(("truncate",), not_permitted))
        for mode in (os.O_RDONLY, O_ACCMODE):  # those that do not need the right to write
            for name, flags in (("open", 1), ("openat", 2)):
                condition = Condition(flags, O_ACCMODE | O_TRUNC, O_TRUNC | mode)
                rules.append(Rule((name,), not_permitted, (condition,)))
    if landlock_version < landlock.SCOPE_VERSION and not can_signal_children:
        for target in (0, pid):  # 0: the process group
            rules.append(Rule(("kill",), SECCOMP_RET_ALLOW, (Condition(0, ALL_BITS, target),)))
        rules.append(Rule(("tgkill",), SECCOMP_RET_ALLOW, (Condition(0, ALL_BITS, pid),)))
        rules.append(Rule(("tgkill",), not_permitted))
        rules.append(Rule(("kill",), SECCOMP_RET_USER_NOTIF if with_broker else not_permitted))
    if with_broker:
        rules.append(Rule(BROKER_CALLS, SECCOMP_RET_USER_NOTIF))
        rules.append(Rule(FILE_ATTRIBUTES, not_permitted))
    for bit in (S_ISUID, S_ISGID):
        rules.append(Rule(("chmod", "fchmod"), not_permitted, (Condition(1, bit, bit),)))
        rules.append(Rule(("fchmodat", "fchmodat2"), not_permitted, (Condition(2, bit, bit),)))
    return rules


def compile_rules(rules: List[Rule], machine: str) -> bytes:
    """The filter for an architecture of NUMBERS: instructions of classic BPF."""
    numbers = {**NUMBERS[machine], **COMMON_NUMBERS}
    no_such_call = refuse(errno.ENOSYS)
    code = [
        _instruction(LOAD, ARCHITECTURE_OFFSET),
        _instruction(JUMP_IF_EQUAL, ARCHITECTURES[machine], if_true=1),
        _instruction(RETURN, no_such_call),
        _instruction(LOAD, NUMBER_OFFSET),
        _instruction(JUMP_IF_AT_LEAST, LAST_NUMBER + 1, if_false=1),
        _instruction(RETURN, no_such_call),
    ]
    rules_by_number: Dict[int, List[Rule]] = {}
    for rule in rules:
        for name in rule.names:
            if name in numbers:
                rules_by_number.setdefault(numbers[name], []).append(rule)
    for number, number_rules in rules_by_number.items():
        block = [instruction for rule in number_rules for instruction in _compile_rule(rule)]
        block.append(_instruction(RETURN, SECCOMP_RET_ALLOW))
        code += [_instruction(JUMP_IF_EQUAL, number, if_false=len(block)), *block]
    code.append(_instruction(RETURN, SECCOMP_RET_ALLOW))
    return b"".join(code)


def _compile_rule(rule: Rule) -> List[bytes]:
    """What follows it is executed if a condition is not met."""
    code = [_instruction(RETURN, rule.action)]
    for condition in reversed(rule.conditions):
        code = [
            _instruction(LOAD, ARGUMENTS_OFFSET + 8 * condition.argument),
            _instruction(AND, condition.mask),
            _instruction(JUMP_IF_EQUAL, condition.value, if_false=len(code)),
            *code,
        ]
    return code


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """if_true, if_false: how many instructions a jump skips."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def is_supported(machine: str) -> bool:
    return machine in NUMBERS


def install(rules: List[Rule], with_listener: bool) -> int:
    """Install the filter in this process, for good, and in its later children. It must have no_new_privs.

    Returns the descriptor by which another process handles the calls of SECCOMP_RET_USER_NOTIF, or 0.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    machine = os.uname().machine
    filter_code = compile_rules(rules, machine)
    buffer = ctypes.create_string_buffer(filter_code, len(filter_code))
    program = struct.pack("@HP", len(filter_code) // 8, ctypes.addressof(buffer))
    # Without this flag, older kernels slow the process down against speculation.
    flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW
    attempts = [flags]
    if with_listener:
        # A signal that interrupts a call would repeat it. Before Linux 5.19 it does.
        flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER
        attempts = [flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, flags]
    for flags in attempts:
        number = SYS_SECCOMP[machine]
        result = int(libc.syscall(number, SECCOMP_SET_MODE_FILTER, flags, program))
        if result >= 0 or ctypes.get_errno() != errno.EINVAL:
            break
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"seccomp: {os.strerror(problem)}")
    return result
