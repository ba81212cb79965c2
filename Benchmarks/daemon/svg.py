"""Plots as SVG, for light and dark pages alike."""

import math
from xml.sax.saxutils import escape

COLOURS = ["#3b82c4", "#d2691e", "#4c9a52", "#8a63b0"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 300, 70, 46, 46


def _text(x, y, text, anchor="middle", size=12, extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#888" {extra}>{escape(text)}</text>'
    )


def short(value):
    """A number as axes have it."""
    if value == 0:
        return "0"
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= bound:
            return f"{value / bound:g}{unit}"
    return f"{value:g}"


def _frame(title, unit, names, body):
    legend = ""
    x = LEFT
    for index, name in enumerate(names):
        legend += f'<rect x="{x}" y="28" width="10" height="10" fill="{COLOURS[index]}"/>'
        legend += _text(x + 15, 37, name, "start")
        x += 30 + 7.5 * len(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif">\n{_text(LEFT, 16, f"{title} ({unit})", "start", 14)}\n'
        f"{legend}\n{body}\n</svg>\n"
    )


def _steps(most):
    step = 10 ** math.floor(math.log10(most or 1))
    step = next(step * f for f in (0.2, 0.5, 1, 2) if most / (step * f) <= 6)
    return [step * number for number in range(int(most / step) + 1)]


def bars(title, unit, groups, names, values):
    """`values[name][group]`; None is left out."""
    most = max((v for name in names for v in values[name] if v), default=1) * 1.1
    plot = HEIGHT - TOP - BOTTOM
    body = ""
    for step in _steps(most):
        y = HEIGHT - BOTTOM - plot * step / most
        body += f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="#8884"/>'
        body += _text(LEFT - 6, y + 4, short(step), "end")
    room = (WIDTH - LEFT - 10) / len(groups)
    thick = room * 0.8 / len(names)
    for at, group in enumerate(groups):
        left = LEFT + room * at
        body += _text(left + room / 2, HEIGHT - BOTTOM + 18, group)
        for index, name in enumerate(names):
            value = values[name][at]
            if not value:
                continue
            tall = plot * value / most
            x, y = left + room * 0.1 + thick * index, HEIGHT - BOTTOM - tall
            body += (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{thick - 2:.1f}" height="{tall:.1f}" '
                f'fill="{COLOURS[index]}"/>'
            )
            body += _text(x + thick / 2, y - 4, short(float(f"{value:.3g}")), size=10)
    return _frame(title, unit, names, body)


def lines(title, unit, label, names, points):
    """`points[name]` is [(x, y)], all above 0; both axes logarithmic."""
    every = [point for name in names for point in points[name]]
    logs = [[math.log10(max(point[axis], 1e-9)) for point in every] for axis in (0, 1)]
    low = [math.floor(min(values)) for values in logs]
    high = [max(math.ceil(max(values)), low[axis] + 1) for axis, values in enumerate(logs)]

    def place(point):
        x = (math.log10(max(point[0], 1e-9)) - low[0]) / (high[0] - low[0])
        y = (math.log10(max(point[1], 1e-9)) - low[1]) / (high[1] - low[1])
        return LEFT + x * (WIDTH - LEFT - 20), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)

    body = _text((LEFT + WIDTH) / 2, HEIGHT - 8, label)
    for power in range(low[0], high[0] + 1):
        body += _text(place((10**power, 1))[0], HEIGHT - BOTTOM + 18, short(10.0**power))
    for power in range(low[1], high[1] + 1):
        y = place((1, 10**power))[1]
        body += f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="#8884"/>'
        body += _text(LEFT - 6, y + 4, short(10.0**power), "end")
    for index, name in enumerate(names):
        path = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in points[name])
        body += (
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[index]}" stroke-width="2"/>'
        )
        for point in points[name]:
            x, y = place(point)
            body += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[index]}"/>'
    return _frame(title, unit, names, body)
