#!/usr/bin/env python3
"""Packs the program of a tarball for package managers: build-packages.py wheel|npm|apt TARBALL_OR_DEB...

wheel: .build/dist/countdownd-VERSION-py3-none-manylinux_2_36_ARCHITECTURE.whl, with the Python client.
npm:   .build/dist/countdownd-VERSION.tgz, with the TypeScript client and the web components, for every
       system, and countdownd-linux-ARCHITECTURE-VERSION.tgz with the program.
apt:   .build/dist/apt, a repository with the given Debian packages.

Each artefact has its SHA-256 and an SPDX list of what it contains beside it.
"""

import base64
import gzip
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parent.parent
DIST = pathlib.Path(os.environ.get("DIST") or PROJECT / ".build/dist")
MOST_BYTES = 15 << 20
# Tests pack a debug build.
ANY_SIZE = "ANY_SIZE" in os.environ
# The same dates in each build, so that equal contents make equal files.
DATE = (2020, 1, 1, 0, 0, 0)
METADATA = """Metadata-Version: 2.1
Name: countdownd
Version: {version}
Summary: A client of countdownd, with the programs countdownd and countdownctl
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: redis (>=5.2)
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = """[console_scripts]
countdownd = countdownd_programs:countdownd
countdownctl = countdownd_programs:countdownctl

[pytest11]
countdownd = countdownd.pytest_plugin
"""
LAUNCHER = """#!/usr/bin/env node
import { run } from './run.js';
run('%s');
"""
# Where npm installs the program.
NPM_CPUS = {"x86_64": "x64", "aarch64": "arm64"}


def program_of(tarball):
    """Returns the program in a tarball."""
    with tarfile.open(tarball) as archive:
        (member,) = [one for one in archive if one.isfile() and one.name.endswith("bin/countdownd")]
        return archive.extractfile(member).read()


def version_of(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "countdownd")
        path.write_bytes(program)
        path.chmod(0o755)
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1].partition("+")[0]


def describe(artefact, version, has_program=True):
    """Writes the checksum of an artefact, and what it contains: the program has its libraries in it."""
    digest = hashlib.sha256(artefact.read_bytes()).hexdigest()
    artefact.with_name(artefact.name + ".sha256").write_text(f"{digest}  {artefact.name}\n")
    pins = json.loads((PROJECT / "Package.resolved").read_text())["pins"] if has_program else []
    packages = [("countdownd", version, "NOASSERTION")] + [
        (pin["identity"], pin["state"].get("version", pin["state"]["revision"]), pin["location"])
        for pin in pins
    ]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": artefact.name, "documentNamespace": f"urn:sha256:{digest}",
        "creationInfo": {
            "created": "2020-01-01T00:00:00Z", "creators": ["Tool: countdownd-build-packages"]},
        "packages": [
            {"name": name, "SPDXID": f"SPDXRef-{name}", "versionInfo": its, "downloadLocation": place,
             "filesAnalyzed": False}
            for name, its, place in packages
        ],
        "relationships": [
            {"spdxElementId": "SPDXRef-countdownd", "relationshipType": "STATIC_LINK",
             "relatedSpdxElement": f"SPDXRef-{name}"} for name, _, _ in packages[1:]
        ],
    }  # fmt: skip
    artefact.with_name(artefact.name + ".spdx.json").write_text(json.dumps(document, indent=2) + "\n")
    if artefact.stat().st_size > MOST_BYTES and not ANY_SIZE:
        sys.exit(f"build-packages: {artefact.name} has more than {MOST_BYTES >> 20} MiB")
    print(f"wrote {artefact}")


def wheel(tarball):
    program = program_of(tarball)
    version = version_of(program)
    tag = f"py3-none-manylinux_2_36_{platform.machine()}"
    info = f"countdownd-{version}.dist-info"
    source = PROJECT / "Clients/Python/src"
    files = {
        str(path.relative_to(source)): path.read_bytes()
        for path in sorted(source.rglob("*")) if path.is_file() and path.suffix in (".py", ".typed")
    }
    readme = (PROJECT / "Clients/Python/README.md").read_text()
    files |= {
        "countdownd/py.typed": b"", "countdownd/bin/countdownd": program,
        f"{info}/METADATA": (METADATA.format(version=version) + readme).encode(),
        f"{info}/entry_points.txt": ENTRY_POINTS.encode(),
        f"{info}/LICENSE": (PROJECT / "LICENSE").read_bytes(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: countdownd\nRoot-Is-Purelib: false\nTag: {tag}\n").encode(),
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    artefact = DIST / f"countdownd-{version}-{tag}.whl"
    with zipfile.ZipFile(artefact, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith("bin/countdownd") else 0o100644) << 16
            archive.writestr(entry, data, compresslevel=1 if ANY_SIZE else None)
    describe(artefact, version)


def npm(tarball):
    program = program_of(tarball)
    version = version_of(program)
    source = PROJECT / "Clients/TypeScript"
    manifest = json.loads((source / "package.json").read_text())
    manifest["version"] = version
    manifest["optionalDependencies"] = {f"countdownd-linux-{cpu}": version for cpu in NPM_CPUS.values()}
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder, "package")
        subprocess.run(["tsc", "-p", source, "--outDir", package / "dist"], check=True)
        shutil.copytree(PROJECT / "Gateway/Sources/Gateway/Components", package / "components")
        shutil.copytree(source / "bin", package / "bin")
        manifest["bin"] = {}
        for name in ("countdownd", "countdownctl"):
            manifest["bin"][name] = f"bin/{name}.js"
            (package / f"bin/{name}.js").write_text(LAUNCHER % name)
        pack(package, manifest)

    cpu = NPM_CPUS[platform.machine()]
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder, "package")
        (package / "bin").mkdir(parents=True)
        (package / "bin/countdownd").write_bytes(program)
        pack(package, {
            "name": f"countdownd-linux-{cpu}", "version": version, "license": manifest["license"],
            "description": f"The program of countdownd for Linux with glibc, {cpu}",
            "os": ["linux"], "cpu": [cpu], "libc": ["glibc"],
        })  # fmt: skip


def pack(package, manifest):
    """Writes the tarball of a folder, whose `bin` has only programs, as npm does."""
    (package / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
    shutil.copy(PROJECT / "LICENSE", package)
    for path in (package / "bin").iterdir():
        path.chmod(0o755)
    artefact = DIST / f"{manifest['name']}-{manifest['version']}.tgz"
    with open(artefact, "wb") as raw, gzip.GzipFile("", "wb", 1 if ANY_SIZE else 9, raw, 0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted(package.rglob("*")):
                if path.is_file():
                    entry = archive.gettarinfo(path, str(path.relative_to(package.parent)))
                    entry.mtime = entry.uid = entry.gid = 0
                    entry.uname = entry.gname = ""
                    archive.addfile(entry, path.open("rb"))
    describe(artefact, manifest["version"], has_program="os" in manifest)


def apt(*debs):
    """Makes a repository for `deb [trusted=yes] file:/… ./`; sign its Release before you publish it."""
    repository = DIST / "apt"
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir(parents=True)
    for deb in debs:
        shutil.copy(deb, repository)
    index = subprocess.run(
        ["dpkg-scanpackages", "--multiversion", "."], cwd=repository, capture_output=True, text=True, check=True)
    (repository / "Packages").write_text(index.stdout)
    (repository / "Packages.gz").write_bytes(gzip.compress(index.stdout.encode(), 9, mtime=0))
    sums = "".join(
        f" {hashlib.sha256((repository / name).read_bytes()).hexdigest()} {(repository / name).stat().st_size} {name}\n"
        for name in ("Packages", "Packages.gz"))
    (repository / "Release").write_text(
        f"Origin: countdownd\nLabel: countdownd\nSuite: stable\nSHA256:\n{sums}")
    print(f"wrote {repository}")


if __name__ == "__main__":
    DIST.mkdir(parents=True, exist_ok=True)
    {"wheel": wheel, "npm": npm, "apt": apt}[sys.argv[1]](*sys.argv[2:])
