"""The Swift programs and parts of programs in the README, the how-to pages, the DocC catalogs and
their tutorials compile, in Swift 6 mode."""

import pathlib
import re
import shutil
import subprocess

import pytest

from countdownd import DEBUG_BUILD, PATIENCE, PROJECT

MODULES = DEBUG_BUILD / "Modules"
PAGES = ["README.md", "docs/howto/swift.md", "docs/howto/timers.md"]
PAGES += [str(page.relative_to(PROJECT)) for page in sorted(PROJECT.glob("Sources/*/*.docc/*.md"))]

# What the parts of programs expect around them: an app.
APP = """
import CountdownClient
import DispatchTimers
import DispatchTimersTesting
import Foundation
import TimerWheel

enum Answer { case tooManyRequests(retryAfter: Duration) }
@MainActor final class Label { var text: String? }
@MainActor final class Button { var isEnabled = false }
@MainActor final class Controller { var scope: ScopeHandle? }
@MainActor final class Screen { func show(_ hud: HUDView?) {} }
final class Box: Sendable { func poll() {} }
var client: Client { fatalError() }
let requestID = "r", phone = "+4512345678"
@MainActor let label = Label(), button = Button(), screen = Screen(), controller = Controller()
let mailbox = Box()
let timers = TimerQueue()
let messages = AsyncStream<Int> { _ in }
@MainActor var handle: AnyObject?, handles: [AnyObject] = []
func note(_ generation: Int, for request: String) async throws -> Bool { true }
func sendCode() async throws {}
func sendCode(to phone: String) async throws {}
func reply(_ status: Int, retryAfter: Duration) {}
func order(_ payload: [UInt8]) {}
func load() async throws -> [String] { [] }
func buy() async throws -> [UInt8] { [] }
func handle(_ payload: UInt64) {}
"""


def functions():
    """Returns each block of the pages, and each file of the tutorials, as a function."""
    found = []

    def add(page, text):
        lines = [line for line in text.splitlines() if not line.startswith("import ")]
        body = "\n".join(lines).replace("{ … }", "{}")
        found.append(
            f"// {page}\n@MainActor func snippet{len(found)}() async throws -> Answer? {{\n"
            f"{body}\nreturn nil\n}}\n")  # fmt: skip

    for page in PAGES:
        for text in re.findall(r"^```swift\n(.*?)^```$", (PROJECT / page).read_text(), re.M | re.S):
            if ".package(" in text:
                continue
            add(page, text)
    for page in PROJECT.glob("Sources/*/*.docc/*.tutorial"):
        for file in re.findall('file: "(.*)"', page.read_text()):
            add(page.name, (page.parent / file).read_text())
    return found


def compile(text, directory, name="Snippets.swift", flags=("-parse-as-library",)):
    """Type-checks a file against the modules of the debug build."""
    (directory / name).write_text(text)
    flags = [*flags, "-I", MODULES, "-module-cache-path", MODULES.parent / "ModuleCache"]
    for folder in [*PROJECT.glob(".build/checkouts/*/Sources/*/include"), *PROJECT.glob("Sources/C*")]:
        flags += ["-I", folder, "-Xcc", f"-I{folder}"]
    for file in MODULES.parent.glob("C*.build/module.modulemap"):
        flags += ["-Xcc", f"-fmodule-map-file={file}"]
    return subprocess.run(
        ["swiftc", "-typecheck", "-swift-version", "6", *flags, name],
        cwd=directory, capture_output=True, text=True, timeout=PATIENCE * 4)  # fmt: skip


@pytest.mark.skipif(not shutil.which("swiftc"), reason="swiftc is not installed")
@pytest.mark.skipif(not MODULES.exists(), reason="there is no debug build")
def test_swift_snippets_compile(tmp_path: pathlib.Path):
    texts = functions()
    assert len(texts) > 10
    done = compile(APP + "\n".join(texts), tmp_path)
    assert done.returncode == 0, done.stderr
    # What does not exist is noticed.
    wrong = compile(APP + texts[0].replace("countdown.start", "countdown.begin"), tmp_path)
    assert wrong.returncode != 0 and "begin" in wrong.stderr
