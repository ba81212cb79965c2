"""Tries what the sandbox of a service forbids, and prints for each setting whether it is in force.

sandbox.py runs this inside the sandbox, and outside of it for comparison. MACHINE_NAMESPACES holds
the namespaces of process 1, which cannot be read from inside.
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
KEYCTL = {"x86_64": 250, "aarch64": 219}[platform.machine()]
MACHINE_NAMESPACES = json.loads(os.environ["MACHINE_NAMESPACES"])


def status(field):
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return lines[field].strip()


def own_namespace(name):
    return os.readlink(f"/proc/self/ns/{name}") != MACHINE_NAMESPACES[name]


def mounted(path, flag):
    return bool(os.statvfs(path).f_flag & flag)


def hidden(path):
    """Returns whether a path does not exist, cannot be read, or is an empty directory."""
    try:
        return os.path.isdir(path) and not os.listdir(path) or not os.path.exists(path)
    except PermissionError:
        return True


def refused(call, *arguments, by=errno.EPERM):
    """Returns whether `call` fails with the error `by`; raises any other error."""
    ctypes.set_errno(0)
    try:
        result = call(*arguments)
    except OSError as error:
        if error.errno != by:
            raise
        return True
    if isinstance(result, int) and result == -1:
        if ctypes.get_errno() != by:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return True
    return False


def in_a_child(call):
    """Returns the result of `call` in a child process; true if a system call filter kills it."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(1 if call() else 0)
        except BaseException:
            os._exit(2)
    result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if result in (0, 1):
        return bool(result)
    if result == -signal.SIGSYS:
        return True
    raise RuntimeError(f"the child's status is {result}")


def set_user_bit():
    with tempfile.NamedTemporaryFile() as file:
        os.chmod(file.name, 0o4700)


def write_and_execute():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def system_call_of_another_abi():
    # getpid of x32: supported by the kernel or not, a filter for native calls kills the process.
    libc.syscall(0x40000000 | 39)
    return False


PROBES = {
    "DynamicUser": lambda: 61184 <= os.getuid() <= 65519 and hidden("/tmp/marker"),
    "UMask": lambda: os.umask(0o077) == 0o077,
    "CapabilityBoundingSet": lambda: int(status("CapBnd"), 16) == 0,
    "NoNewPrivileges": lambda: status("NoNewPrivs") == "1",
    "ProtectSystem": lambda: all(
        mounted(path, os.ST_RDONLY) for path in ("/", "/usr", "/etc", "/var")
    ),
    "ProtectHome": lambda: hidden("/home/marker") and hidden("/root"),
    "PrivateDevices": lambda: hidden("/dev/marker"),
    "PrivateIPC": lambda: own_namespace("ipc"),
    "PrivateMounts": lambda: own_namespace("mnt"),
    "ProtectClock": lambda: refused(libc.adjtimex, ctypes.create_string_buffer(1024)),
    "ProtectControlGroups": lambda: mounted("/sys/fs/cgroup", os.ST_RDONLY),
    "ProtectHostname": lambda: own_namespace("uts"),
    "ProtectKernelLogs": lambda: hidden("/dev/kmsg"),
    "ProtectKernelModules": lambda: hidden("/usr/lib/modules"),
    "ProtectKernelTunables": lambda: hidden("/proc/fs") or mounted("/proc/fs", os.ST_RDONLY),
    "ProtectProc": lambda: hidden("/proc/1"),
    "ProcSubset": lambda: hidden("/proc/meminfo"),
    "LockPersonality": lambda: refused(libc.personality, 0x0040000),
    "MemoryDenyWriteExecute": lambda: refused(write_and_execute),
    "RestrictNamespaces": lambda: in_a_child(lambda: refused(libc.unshare, 0x10000000)),
    "RestrictRealtime": lambda: refused(
        os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)
    ),
    "RestrictSUIDSGID": lambda: refused(set_user_bit),
    "NoExecPaths": lambda: all(
        mounted(path, os.ST_NOEXEC)
        for path in (os.environ["STATE_DIRECTORY"], tempfile.gettempdir(), "/var/tmp")
    ),
    "InaccessiblePaths": lambda: hidden("/dev/shm"),
    "ReadOnlyPaths": lambda: mounted("/run", os.ST_RDONLY),
    "PrivateUsers": lambda: open("/proc/self/uid_map").read().split()[2] != str(2**32 - 1),
    "PrivateNetwork": lambda: own_namespace("net"),
    "RestrictAddressFamilies": lambda: refused(
        socket.socket, socket.AF_INET, socket.SOCK_DGRAM, by=errno.EAFNOSUPPORT
    ),
    "SystemCallArchitectures": lambda: in_a_child(system_call_of_another_abi),
    # From each excluded group, one system call that any process may make without the filter.
    "SystemCallFilter": lambda: refused(libc.syscall, KEYCTL, 0, -3, 1)
    and refused(os.sched_setaffinity, 0, os.sched_getaffinity(0))
    and refused(os.setresuid, -1, -1, -1),
}

results = {}
for name, probe in PROBES.items():
    try:
        results[name] = probe()
    except Exception as error:
        results[name] = f"{type(error).__name__}: {error}"
print(json.dumps(results))
