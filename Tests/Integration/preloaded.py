"""Libraries that tests load into a daemon (LD_PRELOAD), compiled from faults/NAME.c."""

import functools
import pathlib
import subprocess
import tempfile

SOURCES = pathlib.Path(__file__).parent / "faults"


@functools.cache
def directory():
    return tempfile.TemporaryDirectory(prefix="countdownd-preloaded-")


@functools.cache
def compiled(name):
    """Compiles a library and returns its path; the file is removed when this process ends."""
    target = pathlib.Path(directory().name) / f"{name}.so"
    options = ["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    source = SOURCES / f"{name}.c"
    subprocess.run(["cc", *options, "-o", target, source, "-ldl"], check=True)
    return target
