"""What tests compile: once for all of them, whichever worker comes first, and again once it changes."""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess

import pytest

from countdownd import PROJECT

BUILT = PROJECT / ".build/compiled"


def once(name, make, *sources):
    """Returns the folder that `make` filled. `sources` are the files, folders and texts that it
    depends on, and its compiler."""
    digest = hashlib.sha256()
    for source in sources:
        files = [source] if isinstance(source, str) else sorted(source.rglob("*")) or [source]
        for file in files:
            digest.update(str(file).encode() + b"\0")
            if isinstance(file, pathlib.Path) and file.is_file():
                digest.update(file.read_bytes())
    folder = BUILT / name / digest.hexdigest()[:16]
    BUILT.mkdir(parents=True, exist_ok=True)
    with open(BUILT / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(folder.parent, ignore_errors=True)
            partial = folder.parent / "partial"
            partial.mkdir(parents=True)
            make(partial)
            partial.rename(folder)
    return folder


def typescript_client():
    """Returns the folder of the compiled TypeScript client, as it is installed."""
    if not (compiler := shutil.which("tsc")):
        pytest.skip("tsc is not installed")
    source = PROJECT / "Clients/TypeScript"

    def make(folder):
        done = subprocess.run(
            [compiler, "-p", source, "--outDir", folder / "countdownd/dist"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        shutil.copy(source / "package.json", folder / "countdownd")
        shutil.copytree(source / "tests", folder / "countdownd/tests")

    used = [source / name for name in ("src", "tests", "package.json", "tsconfig.json")]
    return once("typescript", make, compiler, *used) / "countdownd"
