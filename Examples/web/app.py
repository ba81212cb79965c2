"""A resend button in four styles: plain HTML, React, Vue, and rendered by the server.

    countdownd --socket ./web.sock --state-directory ./state
    echo "app $(openssl rand -base64 32)" > keys
    countdown-gateway --socket ./web.sock --ticket-keys keys --allowed-origin http://127.0.0.1:5000
    flask --app Examples/web/app.py run

React 18 is that of Debian (node-react, node-react-dom); VUE names the module of Vue 3
(vue.esm-browser.prod.js of the npm package vue). The app serves the components itself, as a page in
production does.
"""

import json
import os
import pathlib
import secrets
import subprocess

import redis
from flask import Flask, redirect, render_template, request, send_file, send_from_directory

HERE = pathlib.Path(__file__).resolve().parent
COMPONENTS = HERE.parents[1] / "Gateway/Sources/Gateway/Components"
VENDOR = {
    "react.js": "/usr/share/nodejs/react/umd/react.production.min.js",
    "react-dom.js": "/usr/share/nodejs/react-dom/umd/react-dom.production.min.js",
    "vue.js": os.environ.get("VUE", "node_modules/vue/dist/vue.esm-browser.prod.js"),
}
GATEWAY = os.environ.get("GATEWAY", "http://127.0.0.1:8787/")
KEYS = os.environ.get("KEYS", "keys")
PHONE = "+4512345678"  # in a real app, the one of the session

app = Flask(__name__, template_folder=HERE / "pages")
daemon = redis.Redis(
    unix_socket_path=os.environ.get("SOCKET", "web.sock"), protocol=3, decode_responses=True
)


@app.get("/components/<name>")
def components(name):
    return send_from_directory(COMPONENTS, name)


@app.get("/vendor/<name>")
def vendor(name):
    return send_file(pathlib.Path(VENDOR[name]).resolve())


@app.get("/<name>.html")
def page(name):
    # No reply: there is no countdown, so the button is ready.
    view = daemon.execute_command("COUNTDOWN", "GET", PHONE) or {"state": "ready"}
    first = {name: view[name] for name in ("state", "remaining_ms") if name in view}
    return render_template(f"{name}.html", gateway=GATEWAY, view=json.dumps(first))


@app.get("/ticket")
def ticket():
    words = ["countdown-gateway", "ticket", "--keys", KEYS, f"resend=countdown:{PHONE}"]
    return subprocess.check_output(words, text=True)


@app.post("/send")
def send():
    token = secrets.token_hex(8)  # If the reply is lost, redis-py asks again with this token.
    view = daemon.execute_command("COUNTDOWN", "START", PHONE, "COUNT", 60, "TOKEN", token)
    if view["accepted"]:
        print("Here you send a code.")
    # A form without script comes back to its page.
    if "page" in request.form:
        return redirect("/rendered.html", 303)
    return {"accepted": view["accepted"]}
