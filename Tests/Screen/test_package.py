"""The files of the components: their size, types, manifest, import on a server, and Examples/web."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from selenium.webdriver.common.by import By

from browser import browser, needs_browser
from countdownd import PATIENCE, PROJECT, eventually, reserved_port
from gateway import COMPONENTS, binary
from pages import blocks
from test_button_tutorial import listens
from web import PHONE

VUE = PROJECT / ".build/vue/nicegui/static/vue.esm-browser.prod.js"
WEB = PROJECT / "docs/reference/web.md"
MODULES = ["countdown-stream.js", "countdown-button.js", "countdown-hud.js"]
TYPES = {"react": "/usr/share/nodejs/@types/react"}

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="nodejs is not installed")


def node(script):
    """Runs a module, and returns what it prints as JSON."""
    words = ["node", "--input-type=module", "-e", script]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


# The budget


def test_the_components_have_10_kb(gateway):
    sizes = [len(gzip.compress(gateway.ask(f"/components/{name}")[2].encode(), 9)) for name in MODULES]
    assert sum(sizes) <= 10_240, sizes


@needs_node
def test_what_the_gateway_serves_is_the_same_program(gateway, tmp_path):
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name in MODULES:
        (tmp_path / name).write_text(gateway.ask(f"/components/{name}")[2])
    print_names = "console.log(JSON.stringify(Object.keys(await import('{}'))))"
    for name in MODULES:
        assert node(print_names.format(tmp_path / name)) == node(print_names.format(COMPONENTS / name))


# Servers and editors


@needs_node
def test_importing_on_a_server_has_no_side_effects():
    imports = "".join(f"await import('{COMPONENTS / name}');" for name in MODULES)
    before = "const before = Reflect.ownKeys(globalThis).length;"
    # Nothing keeps the process alive either, as it ends.
    assert node(f"{before}{imports} console.log(Reflect.ownKeys(globalThis).length - before)") == 0


def test_what_follows_from_the_description_is_written():
    what = "--check" if shutil.which("esbuild") else "--check=text"
    words = [PROJECT / "scripts/components.py", what]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
@pytest.mark.parametrize("tag", ["countdown-button", "countdown-hud"])
def test_the_description_is_true(tag):
    description = json.loads((PROJECT / "Gateway/components.json").read_text())
    element, file = description[tag], COMPONENTS / f"{tag}.js"
    described = description["follower"]["attributes"] | element["attributes"]
    observed, texts = node(
        f"const element = (await import('{file}')).{element['class']};"
        "console.log(JSON.stringify([element.observedAttributes, element.texts]))")
    assert sorted(observed) == sorted(described)
    assert {name: described[name]["default"] for name in texts} == texts
    code = file.read_text() + (COMPONENTS / "countdown-stream.js").read_text()
    for event in element["events"] | description["follower"]["events"]:
        assert f"this.emit('{event}'" in code and f"`{event}`" in WEB.read_text()
    for part in element.get("parts", []):
        assert f"part: '{part}'" in code
    for name, variable in element.get("variables", {}).items():
        assert f"var({name}, {variable['default']})" in code


@pytest.mark.skipif(
    not (shutil.which("tsc") and os.path.exists(TYPES["react"])),
    reason="node-typescript and node-react are not installed")  # fmt: skip
@pytest.mark.parametrize("version", ["react-18"])
def test_the_types_are_right(tmp_path, version):
    (snippet,) = [block.text for block in blocks(WEB) if block.language == "tsx"]
    code = f"""/// <reference types="countdownd/components/{version}" />
    import React from 'react'
    {snippet}""" + """
    import 'countdownd/components/countdown-button.js'
    import {CountdownHUD as HUD} from 'countdownd/components/react-components.js'
    import {follow, source} from 'countdownd/components/countdown-stream.js'
    import type {CountdownHUD} from 'countdownd/components/countdown-hud.js'
    const button = document.createElement('countdown-button')
    button.view = {state: 'ready'}
    button.addEventListener('countdown-change', event => console.log(event.detail.alias))
    document.addEventListener('countdown-change', event => console.log(event.detail.alias))
    window.addEventListener('countdown-connection', event => event.detail.isOnline === true)
    button.ticket = async () => 'ticket'
    button.pending = fetch('/send')
    const isPending: boolean = button.pending
    const hud: CountdownHUD = document.createElement('countdown-hud')
    hud.addEventListener('hud-tap', event => event.detail.where === 'inside')
    const leave: () => void = follow(source(button), 'resend', message => message.ends! - 1)
    export const used = [React, leave, isPending, <countdown-button alias="a" pending={false} />,
      <HUD view={{state: 'visible'}} ticket={async () => 'a'} contained={false} className="a"
        onHudTap={event => event.detail.where === 'inside'} />]
    """
    wrong = {
        "<countdown-button alias={7} />": "number",
        "<HUD view={{state: 'counting'}} />": "counting",
        "<HUD onHudTap={event => event.detail.when} />": "when",
        "<countdown-butto />": "countdown-butto",
    }
    # What React 18 would write as text that means something else.
    if version == "react-18":
        wrong |= {
            "<countdown-hud view={{state: 'visible'}} />": "string",
            "<countdown-hud ticket={() => 'a'} />": "string",
            '<countdown-hud className="a" />': "className",
        }
    (tmp_path / "right.tsx").write_text(code)
    for index, line in enumerate(wrong):
        (tmp_path / f"wrong{index}.tsx").write_text(
            f'/// <reference types="countdownd/components/{version}" />\n'
            "import {CountdownHUD as HUD} from 'countdownd/components/react-components.js'\n"
            f"import React from 'react'\nexport const all = HUD\nexport const one = [React, {line}]\n")
    options = {
        "strict": True, "noEmit": True, "jsx": "react", "target": "es2022", "module": "es2022",
        "moduleResolution": "node", "esModuleInterop": True, "skipLibCheck": True, "types": [],
        "baseUrl": "/", "paths": {"react": [TYPES["react"]]},
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.tsx"]}))
    (tmp_path / "node_modules/countdownd").mkdir(parents=True)
    (tmp_path / "node_modules/countdownd/components").symlink_to(COMPONENTS)
    found = subprocess.run(["tsc", "-p", tmp_path], capture_output=True, text=True).stdout
    errors = [line for line in found.splitlines() if ": error TS" in line]
    assert "right.tsx" not in found and len(errors) == len(wrong), found
    for index, text in enumerate(wrong.values()):
        assert any(f"wrong{index}.tsx" in line and text in found for line in errors), found


STUBS = {
    # These frameworks have no package of Debian or of Python.
    "svelte": "declare module 'svelte/elements' { export interface SvelteHTMLElements {}\n"
              "  export interface HTMLAttributes<Element> { title?: string; element?: Element } }\n"
              "type All = import('svelte/elements').SvelteHTMLElements\n",
    "solid": "declare module 'solid-js' { export namespace JSX { interface IntrinsicElements {}\n"
             "  interface HTMLAttributes<Element> { title?: string; element?: Element } } }\n"
             "type All = import('solid-js').JSX.IntrinsicElements\n",
}  # fmt: skip


@pytest.mark.skipif(not shutil.which("tsc"), reason="node-typescript is not installed")
@pytest.mark.parametrize("framework, listener", [("svelte", "on"), ("solid", "on:")])
def test_other_frameworks_have_types(tmp_path, framework, listener):
    (tmp_path / "stub.d.ts").write_text(STUBS[framework])
    (tmp_path / "use.ts").write_text(f"""/// <reference path="{COMPONENTS}/{framework}.d.ts" />
    export const right: All['countdown-hud'] =
      {{alias: 'a', title: 'b', view: {{state: 'visible'}}, '{listener}hud-tap': event => event.detail.where}}
    export const wrong: All['countdown-button'] = {{alias: 7}}
    """)
    words = ["tsc", "--noEmit", "--strict", "--target", "es2022", "--moduleResolution", "node", "--skipLibCheck",
             tmp_path / "stub.d.ts", tmp_path / "use.ts"]  # fmt: skip
    found = subprocess.run(words, capture_output=True, text=True).stdout
    errors = [line for line in found.splitlines() if "error TS" in line]
    assert len(errors) == 1 and "'number' is not assignable to type 'string'" in errors[0], found


REACT_PAGE = """<!doctype html><html lang="en"><title>React</title>
<link rel="icon" href="data:,">
<script src="/react.js"></script><script src="/react-dom.js"></script>
<script type="importmap">{"imports": {"react": "/shim.js"}}</script>
<div id="root" style="position: relative"></div>
<script type="module">
import {CountdownButton, CountdownHUD} from '/static/1/react-components.js'
const {createElement, createRef, useState, StrictMode} = React
window.events = []
window.ref = createRef()
const ticket = async () => (window.asked = (window.asked ?? 0) + 1, (await fetch('/ticket')).text())
function App() {
  const [props, set] = useState({})
  window.set = set
  return createElement('main', null,
    createElement(CountdownButton, {alias: 'resend', gateway: '{gateway}', ticket, className: 'mine', ref,
      view: {state: 'ready'}, onCountdownChange: event => events.push(event.detail.event), ...props.button},
      createElement('button', {onClick: () => events.push('click')}, 'Send code')),
    createElement(CountdownHUD, {view: {state: 'visible', status: 'Hello'}, contained: false, patience: 5,
      onHudTap: event => events.push(event.detail.where), ...props.hud}))
}
ReactDOM.createRoot(document.getElementById('root'))
  .render(createElement(StrictMode, null, createElement(App)))
</script>"""
REACT = {
    "18": [PROJECT / f".build/react/dash/deps/{name}@18.3.1.min.js" for name in ("react", "react-dom")],
    # Debian's 18 sets properties of elements, as 19 does.
    "19": [f"/usr/share/nodejs/{name}/umd/{name}.production.min.js" for name in ("react", "react-dom")],
}  # fmt: skip


@needs_browser
@pytest.mark.parametrize("version", REACT)
def test_the_wrappers_do_what_their_types_say(site, open_page, client, version):
    files = REACT[version]
    if not os.path.exists(files[1]):
        pytest.skip("React is there after `make test-screen`")
    for name, file in zip(["react", "react-dom"], files):
        site.pages[f"/{name}.js"] = open(file).read()
    names = "createElement, forwardRef, useEffect, useImperativeHandle, useRef"
    site.pages["/shim.js"] = f"export const {{{names}}} = React"
    site.pages["/"] = REACT_PAGE.replace("{gateway}", site.gateway.url)
    page = open_page()
    eventually(lambda: page.js("window.asked"), "the function is asked")
    page.until("ready")
    assert page.js("ref.current.tagName") == "COUNTDOWN-BUTTON" and page.js("ref.current.className") == "mine"
    hud = "document.querySelector('countdown-hud')"
    eventually(lambda: page.hud == "visible", "the object is a view")
    assert page.js(f"[{hud}.contained, {hud}.hasAttribute('contained'), {hud}.patience]") == [False, False, "5"]
    eventually(lambda: "snapshot" in page.js("events"), "it follows")
    client("COUNTDOWN", "START", PHONE, "COUNT", "600")
    page.until("counting")
    assert page.js("events.filter(one => one === 'started').length") == 1
    client("COUNTDOWN", "CANCEL", PHONE)
    page.until("ready")
    # Properties change.
    page.run("""set({button: {className: 'other', pending: new Promise(resolve => window.resolve = resolve)},
      hud: {contained: true, view: {state: 'visible', status: 'Bye'}}})""")
    eventually(lambda: page.js("ref.current.pending") and page.js(f"{hud}.contained"), "they are there")
    assert page.is_blocked and page.js("ref.current.className") == "other"
    page.press()
    page.run("resolve()")
    eventually(lambda: not page.js("ref.current.pending"), "it is over")
    page.part("panel").click()
    assert page.js("events").count("click") == 0 and page.js("events").count("inside") == 1
    page.run("set({button: {ticket: '/ticket'}})")
    eventually(lambda: page.js("ref.current.getAttribute('ticket')") == "/ticket", "it is an address")
    eventually(lambda: not page.js(f"{hud}.hasAttribute('contained')"), "it is gone")
    assert not [text for level, text in page.driver.console() if level == "error"]


# Examples/web


@pytest.fixture
def example(start_gateway, daemon):
    port = str(reserved_port())
    origin = f"http://127.0.0.1:{port}"
    gateway = start_gateway(origins=[origin])
    environment = os.environ | {
        "PATH": f"{binary().parent}:{os.environ['PATH']}", "SOCKET": daemon.path,
        "GATEWAY": gateway.url, "KEYS": str(gateway.keys), "VUE": str(VUE)}  # fmt: skip
    words = [sys.executable, "-m", "flask", "--app", PROJECT / "Examples/web/app.py", "run", "--port", port]
    app = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: listens(port), "it listens")
    yield origin
    app.terminate()
    app.wait(timeout=PATIENCE)


@needs_browser
@pytest.mark.parametrize("style", ["plain", "react", "vue", "rendered"])
def test_the_example_counts_and_is_ready_again(example, client, style):
    needs = {"react": "/usr/share/nodejs/react-dom/umd", "vue": VUE}.get(style)
    if needs and not os.path.exists(needs):
        pytest.skip(f"{style} is not installed")
    driver = browser()
    try:
        driver.get(f"{example}/{style}.html")
        find = lambda selector: driver.find_element(By.CSS_SELECTOR, selector)  # noqa: E731
        state = lambda: find("countdown-button").get_attribute("data-state")  # noqa: E731
        eventually(lambda: state() == "ready", "it is ready")
        find("countdown-button button").click()
        eventually(lambda: driver.execute_script("return document.readyState") == "complete", "it is there")
        eventually(lambda: state() == "counting", "it counts")
        label = "Send another code" if style in ("react", "vue") else "Send code"
        eventually(lambda: find("countdown-button button").text.startswith(f"{label} in "), "it shows the time")
        client("COUNTDOWN", "CANCEL", PHONE)
        eventually(lambda: state() == "ready", "it is ready again")
        assert find("countdown-button button").text == label
        assert not [text for _, text in driver.console() if "favicon" not in text]
    finally:
        driver.quit()


@needs_browser
def test_the_page_of_the_server_works_without_script(example, client):
    driver = browser(has_scripts=False)
    try:
        driver.get(f"{example}/rendered.html")
        driver.find_element(By.CSS_SELECTOR, "countdown-button button").click()
        eventually(lambda: client("COUNTDOWN", "GET", PHONE), "it is sent")
    finally:
        driver.quit()
