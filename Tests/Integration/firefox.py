"""A headless Firefox for Selenium, without geckodriver, which Debian does not have.

geckodriver would use the same protocol, Marionette, whose commands are those of WebDriver. WebDriver
BiDi adds the console, scripts that run before the page's own, and scripts that share the page's
globals.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import websocket
from selenium import webdriver
from selenium.common.exceptions import JavascriptException, WebDriverException
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.webelement import WebElement

BINARY = shutil.which("firefox-esr") or shutil.which("firefox")
PATIENCE = 60
PREFERENCES = {"marionette.port": 0, "network.disable-localhost-when-offline": True}
# Marionette's names of the commands, without "WebDriver:".
COMMANDS = {
    Command.NEW_SESSION: "NewSession",
    Command.GET: "Navigate",
    Command.REFRESH: "Refresh",
    Command.NEW_WINDOW: "NewWindow",
    Command.CLOSE: "CloseWindow",
    Command.SWITCH_TO_WINDOW: "SwitchToWindow",
    Command.W3C_GET_CURRENT_WINDOW_HANDLE: "GetWindowHandle",
    Command.W3C_GET_WINDOW_HANDLES: "GetWindowHandles",
    Command.FIND_ELEMENT: "FindElement",
    Command.FIND_ELEMENTS: "FindElements",
    Command.FIND_CHILD_ELEMENT: "FindElement",
    Command.FIND_CHILD_ELEMENTS: "FindElements",
    Command.CLICK_ELEMENT: "ElementClick",
    Command.CLEAR_ELEMENT: "ElementClear",
    Command.SEND_KEYS_TO_ELEMENT: "ElementSendKeys",
    Command.GET_ELEMENT_TEXT: "GetElementText",
    Command.GET_ELEMENT_RECT: "GetElementRect",
    Command.GET_ELEMENT_ARIA_LABEL: "GetComputedLabel",
    Command.IS_ELEMENT_ENABLED: "IsElementEnabled",
    Command.W3C_ACTIONS: "PerformActions",
    Command.SET_TIMEOUTS: "SetTimeouts",
    Command.SCREENSHOT: "TakeScreenshot",
}
# The preference and value that set a media feature.
FEATURES = {
    ("prefers-color-scheme", "dark"): ("layout.css.prefers-color-scheme.content-override", 0),
    ("prefers-color-scheme", "light"): ("layout.css.prefers-color-scheme.content-override", 1),
    ("prefers-reduced-motion", "reduce"): ("ui.prefersReducedMotion", 1),
    ("forced-colors", "active"): ("browser.display.document_color_use", 2),
}


class Marionette:
    """Executes Selenium's commands on Marionette's socket."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.reader = self.socket.makefile("rb")
        self.receive()
        self.number = 0

    def receive(self):
        length = b""
        while (digit := self.reader.read(1)) not in (b":", b""):
            length += digit
        return json.loads(self.reader.read(int(length)))

    def ask(self, name, **parameters):
        """Sends a command. Returns its error, or None, and its result."""
        self.number += 1
        text = json.dumps([0, self.number, name, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        _, number, error, result = self.receive()
        assert number == self.number
        return error, result

    def execute(self, command, params):
        params = {name: value for name, value in params.items() if name != "sessionId"}
        if command == Command.NEW_SESSION:
            params = params["capabilities"]["alwaysMatch"]
        elif command in (Command.FIND_CHILD_ELEMENT, Command.FIND_CHILD_ELEMENTS):
            params["element"] = params.pop("id")
        elif command == Command.SCREENSHOT:
            params["full"] = False
        error, result = self.ask(f"WebDriver:{COMMANDS[command]}", **params)
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        return result if isinstance(result, dict) and set(result) == {"value"} else {"value": result}

    def close(self):
        self.reader.close()
        self.socket.close()


def local(value):
    """Encodes a script's argument for BiDi."""
    if isinstance(value, WebElement):
        return {"sharedId": value.id}
    if value is None:
        return {"type": "null"}
    kinds = {bool: "boolean", str: "string", int: "number", float: "number"}
    return {"type": kinds[type(value)], "value": value}


class Firefox(webdriver.Remote):
    def __init__(self, width, height, hosts, has_scripts):
        self.directory = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        profile = pathlib.Path(self.directory.name)
        preferences = PREFERENCES | {
            "network.dns.localDomains": ",".join(hosts), "javascript.enabled": has_scripts}
        (profile / "user.js").write_text("".join(
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in preferences.items()))  # fmt: skip
        # `system` needs system access.
        self.process = subprocess.Popen(
            [BINARY, "--headless", "--no-remote", "--profile", profile, "--marionette",
             "--remote-debugging-port", "0", "--remote-allow-system-access"],
            env=os.environ | {"MOZ_CRASHREPORTER_DISABLE": "1", "HOME": self.directory.name},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        try:
            options = webdriver.FirefoxOptions()
            options.set_capability("webSocketUrl", True)
            options.accept_insecure_certs = True
            super().__init__(Marionette(self.port(profile / "MarionetteActivePort")), options=options)
            self.bidi = websocket.create_connection(
                self.caps["webSocketUrl"], PATIENCE, suppress_origin=True)
            self.number, self.entries = 0, []
            self.send("session.subscribe", events=["log.entryAdded"])
            self.send("browsingContext.setViewport", context=self.current_window_handle,
                      viewport={"width": width, "height": height}, devicePixelRatio=1)  # fmt: skip
        except BaseException:
            self.end()
            raise

    def port(self, file):
        until = time.monotonic() + PATIENCE
        while not (file.exists() and file.read_text()):
            assert self.process.poll() is None and time.monotonic() < until, "Firefox does not start"
            time.sleep(0.02)
        return int(file.read_text())

    def send(self, method, **parameters):
        """Sends a BiDi command and returns its result. Stores console entries that arrive first."""
        self.number += 1
        self.bidi.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while (message := json.loads(self.bidi.recv())).get("id") != self.number:
            if message.get("method") == "log.entryAdded":
                self.entries.append(message["params"])
        if message["type"] == "error":
            raise WebDriverException(f"{method}: {message['error']}: {message['message']}")
        return message["result"]

    # Marionette's scripts cannot see the page's `const` and `let`, and have a global object of their own.

    def execute_script(self, script, *args):
        return self.call(f"function () {{{script}\n}}", args)

    def execute_async_script(self, script, *args):
        run = f"(function () {{{script}\n}})"
        return self.call(f"(...all) => new Promise(done => {run}(...all, done))", args)

    def call(self, function, arguments):
        answer = self.send(
            "script.callFunction", functionDeclaration=function, awaitPromise=True,
            arguments=[local(one) for one in arguments],
            target={"context": self.current_window_handle})  # fmt: skip
        if answer["type"] == "exception":
            raise JavascriptException(answer["exceptionDetails"]["text"])
        return self.value(answer["result"])

    def value(self, remote):
        """Decodes a value from BiDi; nodes become elements."""
        value = remote.get("value")
        if remote["type"] == "node":
            return WebElement(self, remote["sharedId"])
        if remote["type"] == "object":
            return {name: self.value(one) for name, one in value}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def system(self, script, *arguments):
        """Runs a script in the browser's own context."""
        self.command_executor.ask("Marionette:SetContext", value="chrome")
        error, _ = self.command_executor.ask("WebDriver:ExecuteScript", script=script, args=arguments)
        self.command_executor.ask("Marionette:SetContext", value="content")
        assert not error, error

    def preload(self, script):
        self.send("script.addPreloadScript", functionDeclaration=f"() => {{{script}\n}}")

    def emulate(self, features):
        for feature in features.items():
            self.system("Services.prefs.setIntPref(...arguments)", *FEATURES[feature])

    def be_online(self, is_online):
        self.system("Services.io.offline = !arguments[0]", is_online)

    def console(self):
        # Events from before this command arrive before its answer.
        self.send("session.status")
        entries, self.entries = self.entries, []
        return [(entry["level"], entry["text"]) for entry in entries]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()

    def quit(self):
        self.bidi.close()
        self.command_executor.ask("Marionette:Quit", flags=["eForceQuit"])
        self.command_executor.close()
        try:
            self.process.wait(timeout=PATIENCE)
        finally:
            self.end()
