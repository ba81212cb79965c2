"""The measured values, by row and server, and functions to format them."""

import json
import os
import pathlib
import platform
import statistics
import textwrap

from servers import output
from wire import percentile


def load_averages():
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


class Results:
    """Measured values, by row (a tuple of strings) and name of the server."""

    def __init__(self):
        self.values = {}  # (row, server) -> {what: [a value for each round]}
        self.latenesses = {}  # (row, server) -> the lateness of every event, of all rounds
        self.troubles = []

    def add(self, row, server, found):
        values = self.values.setdefault((row, server), {})
        for name, value in found.items():
            values.setdefault(name, []).append(value)

    def add_expiry(self, row, server, found):
        late = found["late"]
        self.latenesses.setdefault((row, server), []).extend(late)
        self.add(
            row, server,
            {
                "late_p50": percentile(late, 50), "late_p99": percentile(late, 99),
                "ping_p99": percentile(found["ping"], 99), "ping_max": max(found["ping"], default=None),
                "early": found["early"], "lost": found["lost"], "cpu_us": found["cpu_us"],
            },
        )  # fmt: skip

    def save(self, path, about):
        """Writes a file for `load`, which can combine groups measured separately."""
        text = json.dumps({
            "about": about, "values": [[*names, values] for names, values in self.values.items()],
            "latenesses": [
                [*names, [round(value, 3) for value in values]]
                for names, values in self.latenesses.items()
            ],
            "troubles": self.troubles,
        })  # fmt: skip
        pathlib.Path(path).write_text(text)

    def load(self, path):
        saved = json.loads(pathlib.Path(path).read_text())
        for row, server, values in saved["values"]:
            known = self.values.setdefault((tuple(row), server), {})
            for what, measured in values.items():
                known.setdefault(what, []).extend(measured)
        for row, server, values in saved["latenesses"]:
            self.latenesses.setdefault((tuple(row), server), []).extend(values)
        self.troubles += saved["troubles"]
        return saved["about"]

    def trouble(self, text):
        self.troubles.append(text)

    def get(self, row, server, what):
        """Returns the median of the rounds, or None without values."""
        values = self.values.get((row, server), {}).get(what, [])
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def worst(self, row, server, what):
        values = self.values.get((row, server), {}).get(what, [])
        return max((value for value in values if value is not None), default=None)

    def ratio(self, row, what, ours="countdownd", other="Redis"):
        own, peer = self.get(row, ours, what), self.get(row, other, what)
        return own / peer if own is not None and peer else None


def number(value, unit="", digits=3):
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}{unit}"
    return f"{float(f'{value:.{digits}g}'):g}{unit}"


def times(ratio):
    if ratio is None:
        return "–"
    if 0 < ratio < 0.01:
        return "< 0.01×"
    return f"{ratio:.2f}×" if 0 < ratio < 10 else f"{ratio:.0f}×"


def paragraph(text, width=100):
    return textwrap.fill(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False) + "\n"


def bullets(*texts):
    return "".join("- " + textwrap.indent(paragraph(text, 98), "  ")[2:] for text in texts)


def table(heads, rows):
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def machine():
    model = next(
        (line.split(":", 1)[1].strip() for line in output("lscpu").splitlines()
         if line.startswith("Model name:")), "unknown processor",
    )  # fmt: skip
    with open("/proc/meminfo") as file:
        gib = int(file.readline().split()[1]) / 1024 / 1024
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    return f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB, Linux {platform.release()}, {system}"
