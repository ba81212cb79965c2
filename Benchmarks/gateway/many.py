#!/usr/bin/env python3
"""Compares countdown-gateway and nchan: `make bench-gateway`.

Opens COUNT streams over loopback from one process (pages.c), of one countdown and each of its own,
and publishes one event, over one connection that is kept. nchan is a module of nginx (Debian:
libnginx-mod-nchan), here with one worker.
Then the gateway is killed and started again, while the countdowns change: all pages connect at the
same time, each with the last event that it has seen. With `--stay`, all pages then stay connected.
Everything runs on this machine, and stops by itself.

| column | |
|---|---|
| CPU to open | of the server, for each stream, in microseconds; of the gateway + of the daemon |
| memory | resident, of the server, for each stream, in kB |
| last page | the time from publishing until the last page has the event, in milliseconds |
| CPU of an event | of the server, for each page, in microseconds |
| again | the time from the start after a kill until the last page has what it missed, in ms |
| not received | events that did not come, of all these |
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "Tests/Screen"), str(PROJECT / "Tests/Integration")]

from countdownd import Daemon, eventually, request  # noqa: E402
from gateway import Gateway, ticket  # noqa: E402

NCHAN = pathlib.Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
EVENTS = 5
TICK = os.sysconf("SC_CLK_TCK")


class Usage:
    """The CPU time (in seconds) and the resident memory (in kB) of processes."""

    def __init__(self, *pids):
        self.cpu = self.memory = 0
        for pid in pids:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            self.cpu += (int(stat[11]) + int(stat[12])) / TICK
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            self.memory += int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


class Pages:
    """Streams, read by a program in C, so that the server has the processors to itself."""

    def __init__(self, directory, port, requests):
        file = pathlib.Path(directory, "requests")
        file.write_bytes(b"".join(request + b"\0" for request in requests))
        program = pathlib.Path(directory, "pages")
        source = pathlib.Path(__file__).with_name("pages.c")
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        self.process = subprocess.Popen(
            [program, str(port), file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what, text):
        """Returns how many pages do not have the text; of `stay`, how many streams have ended."""
        print(what, text, file=self.process.stdin, flush=True)
        count = int(self.process.stdout.readline())
        if count and what != "stay":
            print(f"  {count} pages did not receive {text}")
        return count

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def send_all(connection, text, answer, count):
    """Sends at once, and reads until the answer has come so many times."""
    sender = threading.Thread(target=connection.sendall, args=(text,))
    sender.start()
    tail = b""
    while count:
        part = connection.recv(1 << 16)
        assert part, "the connection is open"
        data = tail + part
        count -= data.count(answer)
        tail = data[1 - len(answer) :]
    sender.join()


class GatewayRun:
    ready = '"snapshot"'

    def __init__(self, directory):
        self.daemon = Daemon(directory=directory)
        self.gateway = Gateway(
            self.daemon, "--trust-forwarded-for", "--max-connections", "100000")
        self.port, self.client = self.gateway.port, self.daemon.connect()
        self.pids = [self.gateway.process.pid]
        self.beside = [self.daemon.process.pid]

    def request(self, number, channel):
        # Each page has its own client address, as behind a proxy.
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return (
            f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {address}\r\n"
            f"Authorization: Bearer {ticket({'a': f'countdown:k{channel}'}, 900)}\r\n\r\n").encode()

    def publish(self, number, channels):
        """Sends a command for each channel at once, over one connection."""
        word = "START" if number % 2 == 0 else "CANCEL"
        commands = [request("COUNTDOWN", word, f"k{channel}") for channel in channels]
        send_all(self.client.socket, b"".join([*commands, request("PING")]), b"+PONG", 1)

    def text(self, number):
        """A text that is in the event, and in no earlier one."""
        return '"started"' if number % 2 == 0 else '"cancelled"'

    def again(self, pages, channels):
        """Kills the gateway, changes each countdown, and starts it; returns the events not received."""
        self.gateway.stop(signal.SIGKILL)
        self.publish(EVENTS, channels)
        self.gateway.start()
        return pages.ask("again", self.text(EVENTS))

    def close(self):
        self.client.close()
        self.gateway.close()
        self.daemon.close()


class NchanRun:
    ready = ": hi"
    beside = []

    def __init__(self, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        path = pathlib.Path(directory)
        (path / "nginx.conf").write_text(f"""
load_module {NCHAN};
user root; worker_processes 1; worker_rlimit_nofile 65536; daemon off; pid {path}/pid;
error_log {path}/error.log;
events {{ worker_connections 30000; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path {path}/body; proxy_temp_path {path}/proxy; fastcgi_temp_path {path}/fcgi;
  uwsgi_temp_path {path}/uwsgi; scgi_temp_path {path}/scgi;
  server {{
    listen 127.0.0.1:{self.port} backlog=4096;
    location ~ /sub/(.+)$ {{ nchan_subscriber; nchan_channel_id $1; }}
    location ~ /pub/(.+)$ {{ nchan_publisher; nchan_channel_id $1; }}
  }}
}}""")
        self.process = subprocess.Popen(
            ["nginx", "-c", path / "nginx.conf", "-e", path / "error.log"],
            stdin=subprocess.DEVNULL)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.pids = [int(pid) for pid in eventually(lambda: children.read_text().split(), "nginx runs")]
        self.publisher = None

    def request(self, number, channel):
        return (
            f"GET /sub/k{channel} HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: text/event-stream\r\n\r\n").encode()

    def publish(self, number, channels):
        """Posts to each channel at once, over one connection."""
        body = f'{{"event":"number {number}","state":"counting","remaining":60}}'.encode()
        if not self.publisher:
            self.publisher = socket.create_connection(("127.0.0.1", self.port))
        posts = [
            f"POST /pub/k{channel} HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body
            for channel in channels
        ]
        send_all(self.publisher, b"".join(posts), b"HTTP/1.1 20", len(posts))

    def text(self, number):
        return f'"number {number}"'

    def close(self):
        if self.publisher:
            self.publisher.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=10)


def measure(name, kind, count, channels, stay):
    with tempfile.TemporaryDirectory() as directory:
        run = kind(directory)
        pages = Pages(
            directory, run.port, [run.request(number, number % channels) for number in range(count)])
        try:
            before, beside = Usage(*run.pids), Usage(*run.beside)
            missing = pages.ask("open", run.ready)
            opened, daemon = Usage(*run.pids), Usage(*run.beside).cpu - beside.cpu
            late = []
            for number in range(EVENTS):
                begin = time.monotonic()
                run.publish(number, range(channels))
                missing += pages.ask("wait", run.text(number))
                late.append((time.monotonic() - begin) * 1e3)
            after = Usage(*run.pids)
            again = ""
            if kind is GatewayRun:
                begin = time.monotonic()
                missing += run.again(pages, range(channels))
                again = f"{(time.monotonic() - begin) * 1e3:.0f}"
            lost = pages.ask("stay", stay) if stay else 0
            each = 1e6 / count
            print(
                f"| {name} | {count} | {channels} | {(opened.cpu - before.cpu) * each:.0f}"
                + (f" + {daemon * each:.0f}" if run.beside else "")
                + f" | {(opened.memory - before.memory) / count:.1f}"
                f" | {sorted(late)[len(late) // 2]:.0f}"
                f" | {(after.cpu - opened.cpu) * each / EVENTS:.0f} | {again} | {missing} |",
                flush=True)
            if stay:
                print(f"  {lost} of {count} streams ended within {stay} s")
        finally:
            pages.close()
            run.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts", type=int, nargs="*", default=[500, 1_000, 5_000])
    parser.add_argument(
        "--stay", type=float, default=0, metavar="SECONDS", help="how long all pages stay at the end")
    options = parser.parse_args()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    if max(options.counts) > files - 500:
        parser.error(f"at most {files - 500} pages: the hard limit of open files is {files}")
    kinds = [("gateway", GatewayRun)]
    if NCHAN.exists() and shutil.which("nginx"):
        kinds.append(("nchan", NchanRun))
    else:
        print("nchan is not installed: apt install libnginx-mod-nchan")
    print(
        "| server | pages | countdowns | CPU to open (µs) | memory (kB) | last page (ms) "
        "| CPU of an event (µs) | again (ms) | not received |\n|---|---|---|---|---|---|---|---|---|")
    for count in options.counts:
        for channels in (1, count):
            for name, kind in kinds:
                measure(name, kind, count, channels, options.stay)


main()
