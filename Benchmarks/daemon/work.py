"""The workloads of the throughput measurement, and the goals."""

# (name of the row, durability of countdownd, appendfsync of Redis, log of the bare loop)
MODES = [
    ("none", "none", None, []),
    ("everysec", "process", "everysec", ["log"]),
    ("always", "power", "always", ["log", "sync"]),
]
MODE_TITLES = {
    "none": "nothing stored", "everysec": "survives `kill -9`", "always": "survives a power failure",
}  # fmt: skip
# (name, clients, pipeline, commands, commands where each reply waits for the disk)
LOADS = [
    ("1 client", 1, 1, 40_000, 8_000),
    ("50 clients", 50, 1, 150_000, 80_000),
    ("50 clients, pipeline 16", 50, 16, 600_000, 300_000),
    ("50 clients, pipeline 64", 50, 64, 1_000_000, 500_000),
]
# countdownd's full reply instead of BRIEF.
FULL = "countdownd, full reply"

# load: (minimum throughput in each mode, maximum CPU per command), both relative to Redis.
GOALS = {
    "1 client": ({"none": 1.0, "everysec": 1.1, "always": 1.2}, 0.85),
    "50 clients": ({"none": 0.95, "everysec": 0.95, "always": 1.2}, 0.85),
    "50 clients, pipeline 16": ({"none": 2.5, "everysec": 3.0, "always": 3.0}, 0.35),
    "50 clients, pipeline 64": ({"none": 3.5, "everysec": 4.0, "always": 4.0}, 0.3),
}
FULL_GOAL = (1.5, 0.5)
