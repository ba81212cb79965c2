"""Kills a process, or makes its calls fail, at the nth change to a file; see faults/faults.c.

    faults = Faults(tmp_path, watched=state_directory)
    subprocess.run(command, env=faults.environment(at=17, action="kill-before"))
    faults.lose_power()     # the files are now as after a power failure
"""

import os
import pathlib
import shutil
import subprocess

from preloaded import compiled


class Faults:
    def __init__(self, directory, watched):
        """`directory` is for the library's own files, and must not be in `watched`."""
        self.watched = pathlib.Path(watched).resolve()
        self.log_file = pathlib.Path(directory) / "faults.log"
        self.while_file = pathlib.Path(directory) / "faults.while"
        self.shadow = pathlib.Path(directory) / "faults.shadow"

    def environment(self, at=0, action=None, lasting=False, file=None, shadow=False, log=True):
        """Returns the environment of a process. With `lasting`, calls fail between `damage` and
        `mend`: all, or those for a file name in `file` (`state-1.db,.changes.new`). `lose_power` needs
        `shadow`."""
        environment = dict(
            os.environ,
            LD_PRELOAD=str(compiled("faults")),
            FAULTS_DIRECTORY=str(self.watched),
            FAULTS_AT=str(at),
        )
        self.log_file.unlink(missing_ok=True)
        if log:
            environment["FAULTS_LOG"] = str(self.log_file)
        if action:
            environment["FAULTS_ACTION"] = action
        if lasting:
            environment["FAULTS_WHILE"] = str(self.while_file)
        if file:
            environment["FAULTS_FILE"] = file
        if shadow:
            self.shadow.mkdir(exist_ok=True)
            environment["FAULTS_SHADOW"] = str(self.shadow)
        return environment

    def damage(self):
        self.while_file.touch()

    def mend(self):
        self.while_file.unlink(missing_ok=True)

    def calls(self):
        """Returns the calls in order, as pairs of function and file name."""
        if not self.log_file.exists():
            return []
        lines = (line.split(maxsplit=2) for line in self.log_file.read_text().splitlines())
        return [(call, os.path.basename(path)) for _, call, path in lines]

    def lose_power(self, luck=None):
        """Simulates a power failure: only synced content under synced names remains.

        With `luck`, a random.Random, any of the written sectors that were not synced remain, too.
        """
        written = {}
        for entry in self.watched.iterdir():
            if entry.is_file():
                written[identity(entry)] = entry.read_bytes()
                entry.unlink()
        names = self.shadow / "names"
        for line in names.read_text().splitlines() if names.exists() else []:
            place, name = line.split(maxsplit=1)
            # A name without a synced content is an empty file.
            synced = (self.shadow / place).read_bytes() if (self.shadow / place).exists() else b""
            data = mixed(synced, written.get(place, b""), luck) if luck else synced
            (self.watched / name).touch(mode=0o600)
            (self.watched / name).write_bytes(data)
        # A new shadow begins with the files that remain.
        shutil.rmtree(self.shadow, ignore_errors=True)
        self.shadow.mkdir()


def identity(file):
    """Returns inode and time of birth, the file's name in the shadow: inodes are reused."""
    return subprocess.run(["stat", "--printf=%i-%.9W", file], capture_output=True, text=True, check=True).stdout


def mixed(old, new, luck, sector=512):
    """Returns content of which some sectors are old and some new."""
    share = luck.choice([0, 0.1, 0.5, 0.9, 1])
    data = bytearray(old)
    if luck.random() < share:
        data += bytes(max(len(new) - len(old), 0))
    for start in range(0, len(data), sector):
        if luck.random() < share and start < len(new):
            piece = new[start : min(start + sector, len(data))]
            data[start : start + len(piece)] = piece
    return bytes(data)
