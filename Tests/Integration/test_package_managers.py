"""The wheel and the package for npm, made from the program under test, installed and used."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile

import pytest

from countdownd import PROJECT, binary

TEST = """
def test_a_code_a_minute(countdownd):
    start = countdownd.client.countdown.start
    assert start("+45", count=60).accepted
    assert start("+45", count=60).refused
    countdownd.advance("60s")
    assert start("+45", count=60).accepted
"""

NODE_TEST = """
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startCountdownd } from 'countdownd/testing';

const daemon = await startCountdownd();
after(() => daemon.close());

test('a code a minute', async () => {
  const start = () => daemon.client.countdown.start('+45', { count: 60 });
  assert.ok((await start()).accepted);
  assert.ok((await start()).refused);
  await daemon.advance('60s');
  assert.ok((await start()).accepted);
});
"""

# Without the program under test: what is installed has to be found.
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("COUNTDOWND")}


def run(*words, **options):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def artefacts(tmp_path):
    """Returns what makes packages from a tarball with the program, and lists them by name."""
    if not shutil.which("strip"):
        pytest.skip("strip is not installed: Debian's binutils")
    run("strip", "-o", tmp_path / "countdownd", binary())
    tarball = tmp_path / "countdownd.tar.gz"
    with tarfile.open(tarball, "w:gz", compresslevel=1) as archive:
        archive.add(tmp_path / "countdownd", "countdownd-0.1.0/bin/countdownd")
    dist = tmp_path / "dist"

    def make(kind):
        run(sys.executable, PROJECT / "scripts/build-packages.py", kind, tarball,
            env={**os.environ, "DIST": str(dist), "ANY_SIZE": "1"})
        made = sorted(path for path in dist.iterdir() if path.suffix in (".whl", ".tgz"))
        for artefact in made:
            assert artefact.name in (dist / f"{artefact.name}.sha256").read_text()
            bill = json.loads((dist / f"{artefact.name}.spdx.json").read_text())
            has_program = "linux" in artefact.name
            assert ("swift-nio" in {package["name"] for package in bill["packages"]}) == has_program
        return made

    return make


def test_the_wheel_brings_programs_client_and_fixture(artefacts, tmp_path):
    if not (PROJECT / "Package.resolved").exists():
        pytest.skip("there is no Package.resolved; swift build writes it")
    site = tmp_path / "site"
    (wheel,) = artefacts("wheel")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    environment = {**PLAIN, "PYTHONPATH": str(site)}
    for name in ("countdownd", "countdownctl"):
        assert "0." in run(sys.executable, site / "bin" / name, "--version", env=environment)
    (tmp_path / "test_code.py").write_text(TEST)
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_code.py",
               cwd=tmp_path, env=environment)
    assert "1 passed" in done


@pytest.fixture
def npm_packages(artefacts, tmp_path):
    """The packages for npm in the node_modules of an app: the client and the program."""
    if not (PROJECT / "Package.resolved").exists():
        pytest.skip("there is no Package.resolved; swift build writes it")
    for program in ("tsc", "node"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    modules = tmp_path / "app/node_modules"
    modules.mkdir(parents=True)
    folders = []
    for artefact in artefacts("npm"):
        with tarfile.open(artefact) as archive:
            archive.extractall(modules, filter="data")
        manifest = json.loads((modules / "package/package.json").read_text())
        assert artefact.name == f"{manifest['name']}-{manifest['version']}.tgz"
        folders.append((modules / "package").rename(modules / manifest["name"]))
    return folders


def test_the_client_for_npm_is_for_every_system(npm_packages):
    client, program = npm_packages
    manifest, other = (json.loads((one / "package.json").read_text()) for one in npm_packages)
    assert not manifest.keys() & {"os", "cpu", "libc"} and other["os"] == ["linux"]
    assert manifest["optionalDependencies"][other["name"]] == other["version"] == manifest["version"]
    assert sum(path.stat().st_size for path in client.rglob("*") if path.is_file()) < 1 << 20
    # As where there is no package with the program.
    shutil.rmtree(program)
    for name in ("countdownd", "countdownctl"):
        done = subprocess.run(
            ["node", client / manifest["bin"][name], "--version"], capture_output=True, text=True, env=PLAIN)
        assert done.returncode == 127
        assert re.fullmatch(rf"{name}: there is no program for linux-\w+ here\. .* install .*\n", done.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_what_starts_the_program_for_npm_gives_it_its_signals(npm_packages, tmp_path, number):
    path = tmp_path / "s"
    launcher = subprocess.Popen(
        ["node", npm_packages[0] / "bin/countdownd.js", "--socket", path, "--state-directory", tmp_path / "state"],
        stderr=subprocess.PIPE, text=True, env=PLAIN)
    try:
        for line in launcher.stderr:
            if "listens" in line:
                break
        (child,) = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        if number == signal.SIGKILL:
            os.kill(int(child), number)
        else:
            launcher.send_signal(number)
        if number == signal.SIGHUP:
            # It reads its configuration again, and goes on.
            assert any("configuration" in line for line in launcher.stderr)
            launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(timeout=60) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
        assert not pathlib.Path(f"/proc/{child}").exists()
    finally:
        launcher.kill()
        launcher.stderr.close()


def test_the_packages_for_npm_bring_program_client_and_fixture(npm_packages):
    modules = npm_packages[0].parent
    (modules.parent / "code.test.mjs").write_text(NODE_TEST)
    assert "# pass 1" in run("node", "--test", "--test-reporter", "tap", ".", cwd=modules.parent, env=PLAIN)
    assert "0." in run("node", modules / "countdownd/bin/countdownctl.js", "--version", env=PLAIN)
    # The components, as a server and a compiler find them.
    script = "import('countdownd/components/countdown-button.js').then(it => console.log(Object.keys(it)))"
    assert "CountdownButton" in run("node", "-e", script, cwd=modules.parent)
    manifest = json.loads((modules / "countdownd/package.json").read_text())
    assert (modules / "countdownd" / manifest["customElements"]).exists()
    (modules.parent / "page.mts").write_text(
        "/// <reference types='countdownd/components/countdown-hud.js' />\n"
        "import 'countdownd/components/countdown-button.js'\n"
        "document.createElement('countdown-button').view = {state: 'ready'}\n"
        "document.createElement('countdown-hud').patience = 5\n")
    run("tsc", "--strict", "--noEmit", "--module", "node16", "--moduleResolution", "node16", "--target", "es2022",
        modules.parent / "page.mts", cwd=modules.parent)
