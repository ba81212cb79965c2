#!/usr/bin/env python3
"""Plays an attack by SMS pumping, on virtual time: how many codes go out?

    attack.py [--addresses N] [--numbers N] [--honest N] [--unprotected] [--picture FILE]

10,000 numbers of one range ask for a code within an hour, from N addresses (default: 3), and nobody
enters one. Beside them 1,000 honest users of other ranges, each with an address of its own, ask
within 12 hours; four of five enter their code. Needs `countdownd` in PATH, or COUNTDOWND.
"""

import argparse
import collections
import os
import pathlib
import random
import socket
import subprocess
import tempfile
import time

RULES = pathlib.Path(__file__).with_name("countdownd.yaml")
HOUR = 3_600_000


class Daemon:
    """A daemon of its own, whose time moves on command."""

    def __init__(self, directory):
        path = f"{directory}/socket"
        program = os.environ.get("COUNTDOWND", "countdownd")
        self.process = subprocess.Popen(
            [program, "--virtual-time", "--config", str(RULES), "--socket", path,
             "--state-directory", f"{directory}/state"], stderr=subprocess.DEVNULL)
        for _ in range(1_000):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                time.sleep(0.02)
        else:
            raise SystemExit(f"{program} does not start")
        self.replies = self.socket.makefile("rb")
        self.now = 0

    def __call__(self, *words):
        words = [str(word).encode() for word in words]
        self.socket.sendall(
            b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.reply()

    def reply(self):
        line = self.replies.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise SystemExit(rest.decode())
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return self.replies.read(int(rest) + 2)[:-2] if int(rest) >= 0 else None
        return int(rest) if kind == b":" else rest

    def move(self, moment):
        if moment > self.now:
            self("CLOCK", "ADVANCE", f"{moment - self.now}ms")
            self.now = moment

    def end(self):
        self.process.terminate()
        self.process.wait()


def requests(addresses, numbers, users, chance):
    """Returns who asks when: the moment, the number, its address, and whether it is honest."""
    attack = [
        (HOUR + chance.randrange(HOUR), f"+4470{number:08}", f"10.6.{number % addresses}", False)
        for number in range(55_550_000, 55_550_000 + numbers)]
    honest = [
        (chance.randrange(12 * HOUR), f"+4520{chance.randrange(10**8):08}", f"10.7.{user}", True)
        for user in range(users)]
    return sorted(attack + honest)


def play(options, is_protected):
    """Returns the codes that were sent, by minute and by whether they were honest."""
    chance = random.Random(1)
    sent = {True: collections.Counter(), False: collections.Counter()}
    entered = []
    with tempfile.TemporaryDirectory() as directory:
        daemon = Daemon(directory)
        try:
            asked = requests(options.addresses, options.numbers, options.honest, chance)
            for moment, number, address, is_honest in asked:
                while entered and entered[0][0] <= moment:
                    when, who = entered.pop(0)
                    daemon.move(when)
                    daemon("COUNTDOWN", "PASS", who)
                daemon.move(moment)
                words = ["COUNTDOWN", "START", number, "POLICY"]
                words += ["phone", "LIMIT", f"ip:{address}"] if is_protected else ["unprotected"]
                if daemon(*words, "BRIEF")[0]:
                    sent[is_honest][moment // 60_000] += 1
                    if is_honest and chance.random() < 0.8:
                        entered.append((moment + chance.randrange(10_000, 60_000), number))
                        entered.sort()
        finally:
            daemon.end()
    return sent


def picture(curves):
    """Returns an SVG of the codes per minute in the two hours around the attack."""
    width, height, left, minutes = 640, 260, 48, 180
    most = max(max(curve.values(), default=1) for curve, _, _ in curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="18">codes per minute</text>']
    for part in range(5):
        y = 30 + part * (height - 70) / 4
        parts.append(
            f'<path d="M{left} {y:.0f}H{width - 10}" stroke="#ddd"/><text x="{left - 6}" '
            f'y="{y + 4:.0f}" text-anchor="end">{most * (4 - part) // 4}</text>')
    for minute in range(0, minutes + 1, 30):
        x = left + minute * (width - left - 10) / minutes
        parts.append(
            f'<text x="{x:.0f}" y="{height - 22}" text-anchor="middle">{minute // 60}:'
            f'{minute % 60:02}</text>')
    for place, (curve, name, colour) in enumerate(curves):
        points = " ".join(
            f"{left + minute * (width - left - 10) / minutes:.1f},"
            f"{30 + (1 - curve[minute] / most) * (height - 70):.1f}" for minute in range(minutes))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<text x="{left + 10 + place * 290}" y="{height - 4}" fill="{colour}">{name}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--addresses", type=int, default=3)
    parser.add_argument("--numbers", type=int, default=10_000)
    parser.add_argument("--honest", type=int, default=1_000)
    parser.add_argument("--protected", action="store_true", help="the default")
    parser.add_argument("--unprotected", action="store_true")
    parser.add_argument("--picture", type=pathlib.Path)
    options = parser.parse_args()
    sent = play(options, not options.unprotected)
    print(f"{sum(sent[False].values())} codes to the attacker's {options.numbers} numbers")
    print(f"{sum(sent[True].values())} codes to {options.honest} honest users")
    if options.picture:
        without = sent if options.unprotected else play(options, False)
        both = [collections.Counter(each[True]) + each[False] for each in (without, sent)]
        curves = [
            (both[0], f"rules for each number: {sum(both[0].values())} codes", "#c0392b"),
            (both[1], f"and shared limits: {sum(both[1].values())} codes", "#1f6fb2")]
        options.picture.write_text(picture(curves))


if __name__ == "__main__":
    main()
