"""Draws charts as SVG, with colours for light and dark pages."""

import math
from xml.sax.saxutils import escape

WIDTH = 720
STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#57606a}.title{font-size:15px;font-weight:600;fill:#24292f}
.value{fill:#24292f;paint-order:stroke;stroke:#fff;stroke-width:4px}.grid{stroke:#d0d7de}.one{stroke:#57606a;stroke-dasharray:4 3}
.c0{fill:#0969da;stroke:#0969da}.c1{fill:#bc4c00;stroke:#bc4c00}.c2{fill:#1a7f37;stroke:#1a7f37}
polyline{fill:none!important;stroke-width:2}rect{stroke:none!important}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.title,.value{fill:#f0f6fc}.value{stroke:#0d1117}.grid{stroke:#3d444d}
.one{stroke:#9198a1}.c0{fill:#4493f8;stroke:#4493f8}.c1{fill:#f0883e;stroke:#f0883e}
.c2{fill:#3fb950;stroke:#3fb950}}
</style>"""


def _text(x, y, text, anchor="start", kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


def short(value):
    """Formats a number for an axis."""
    if value == 0:
        return "0"
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= bound:
            return f"{value / bound:g}{unit}"
    return f"{value:g}"


def _page(title, names, height, body):
    legend, x = "", 10
    for index, name in enumerate(names):
        legend += f'<rect x="{x}" y="36" width="12" height="12" class="c{index}"/>' + _text(x + 18, 46, name)
        x += 40 + 7 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">\n{STYLE}\n'
        f"{_text(10, 20, title, kind='title')}\n{legend}\n{body}\n</svg>\n"
    )


def _steps(most):
    step = 10 ** math.floor(math.log10(most or 1))
    step = next(step * f for f in (0.2, 0.5, 1, 2) if most / (step * f) <= 8)
    return [step * number for number in range(int(most / step) + 1)]


def bars(title, names, rows, mark=None, form=short):
    """Draws horizontal bars. A row is (label, [a value for each name]), or (heading, None). `mark`
    is a reference value, drawn as a dashed line."""
    left, right, top, bar = 170, 60, 66, 13
    most = max(value for _, values in rows if values for value in values if value) * 1.02
    place = lambda value: left + (WIDTH - left - right) * value / most  # noqa: E731
    body, y = "", top
    for label, values in rows:
        if values is None:
            y += 10
            body += _text(10, y + 10, label, kind="value")
            y += 22
            continue
        body += _text(left - 10, y + bar * len(values) / 2 + 4, label, "end")
        for index, value in enumerate(values):
            if value:
                body += f'<rect x="{left}" y="{y}" width="{place(value) - left:.1f}" height="{bar - 2}" class="c{index}"/>'
                body += _text(place(value) + 6, y + bar - 3, form(value), kind="value")
            y += bar
        y += 8
    grid = ""
    for step in _steps(most):
        grid += f'<path d="M{place(step):.1f} {top - 4}V{y}" class="grid"/>' + _text(place(step), y + 16, short(step), "middle")
    if mark is not None:
        grid += f'<path d="M{place(mark):.1f} {top - 4}V{y}" class="one"/>'
    return _page(title, names, y + 26, grid + body)


def _curves(title, names, curves, ticks, to_x, across, down):
    """Draws polylines over a logarithmic vertical axis. `ticks`: (x, label) on the other axis."""
    left, right, top, bottom, height = 70, 34, 80, 46, 360
    every = [y for points in curves for _, y in points]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    high = max(high, low + 1)
    first, last = to_x(ticks[0][0]), to_x(ticks[-1][0])

    def place(x, y):
        across = (to_x(x) - first) / (last - first)
        up = (math.log10(y) - low) / (high - low)
        return left + across * (WIDTH - left - right), height - bottom - up * (height - top - bottom)

    body = _text(10, top - 12, down)
    for power in range(low, high + 1):
        y = place(ticks[0][0], 10.0**power)[1]
        body += f'<path d="M{left} {y:.1f}H{WIDTH - right}" class="grid"/>' + _text(left - 8, y + 4, short(10.0**power), "end")
    for x, label in ticks:
        at = place(x, 10.0**low)[0]
        body += f'<path d="M{at:.1f} {top}V{height - bottom}" class="grid"/>' + _text(at, height - bottom + 18, label, "middle")
    body += _text((left + WIDTH - right) / 2, height - 6, across, "middle")
    for index, points in enumerate(curves):
        path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
        body += f'<polyline points="{path}" class="c{index}"/>'
    return _page(title, names, height, body)


def percentiles(title, names, values, unit):
    """Draws the values from the median up, with a stretched tail: 90%, 99% and 99.9% are equally
    far apart. `values[i]` is sorted."""
    ticks = [(50, "50%"), (90, "90%"), (99, "99%"), (99.9, "99.9%"), (99.99, "99.99%")]
    at = [100 - 50 * 10 ** (-3.69897 * step / 200) for step in range(201)]
    curves = [[(p, max(known[min(len(known) - 1, int(len(known) * p / 100))], 1e-3)) for p in at] for known in values]
    to_x = lambda percent: -math.log10(1 - percent / 100)  # noqa: E731
    return _curves(title, names, curves, ticks, to_x, "percentile of events", unit)


def growth(title, names, curves, unit, across):
    """Draws curves over a size, with two logarithmic axes."""
    sizes = [x for points in curves for x, _ in points]
    powers = range(math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes))) + 1)
    ticks = [(10.0**power, short(10.0**power)) for power in powers]
    return _curves(title, names, curves, ticks, math.log10, across, unit)
