"""METRICS, countdownctl metrics, and the alert rules and the dashboard that read them."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Fleet"))

from countdownd import PROJECT, Client, Verbatim, eventually, reserved_port  # noqa: E402
from fleet import Fleet  # noqa: E402
from servers import Single  # noqa: E402
from test_access import Child, needs_root, open_up  # noqa: E402
from test_ctl import ctl  # noqa: E402

MONITORING = PROJECT / "packaging/monitoring"
PROMTOOL = shutil.which("promtool")
NODE_EXPORTER = shutil.which("prometheus-node-exporter")
# The file of docs/howto/monitor.md.
FILE = "/var/lib/prometheus/node-exporter/countdownd.prom"
needs_promtool = pytest.mark.skipif(
    not PROMTOOL, reason="no promtool; scripts/install-packages.sh prometheus")


def samples(text):
    """Returns the value of each sample by its name with its labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def metrics(client):
    reply = client("METRICS")
    return samples((reply if isinstance(reply, bytes) else bytes(reply)).decode())


def promtool(*words, text=None):
    done = subprocess.run([PROMTOOL, *words], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_metrics_is_text(speaker):
    assert isinstance(speaker("METRICS"), Verbatim if speaker.protocol == 3 else bytes)


def test_metrics_count_correctly(daemon, client):
    before = metrics(client)
    client("COUNTDOWN", "START", "a")
    client("COUNTDOWN", "START", "a")
    client("COUNTDOWN", "START", "b")
    client.error("UNKNOWN", "NONSENSE")
    client.error("STALE", "COUNTDOWN", "CANCEL", "a", "GENERATION", "1")
    client("TIMER", "SET", "t", "1ms")
    other = daemon.connect()
    eventually(lambda: client("TIMER", "GET", "t") is None, "t fires")
    after = metrics(client)

    def rise(name):
        return after[f"countdownd_{name}"] - before.get(f"countdownd_{name}", 0)

    assert after['countdownd_entities{kind="countdown"}'] == 2
    assert after['countdownd_entities{kind="timer"}'] == 0
    assert after["countdownd_connections"] == 2
    assert rise('commands_total{command="countdown|start"}') == 3
    assert rise('starts_total{result="accepted"}') == 2
    assert rise('starts_total{result="refused"}') == 1
    assert rise('errors_total{code="ERR"}') == 1
    assert rise('errors_total{code="STALE"}') == 1
    assert rise("timer_lateness_seconds_count") == 1
    assert 0 < rise("timer_lateness_seconds_sum") <= 60
    assert rise("events_total") == 5
    assert rise("batch_commit_seconds_count") > 0
    assert after["countdownd_state_bytes"] > 0
    assert after["countdownd_loading"] == after["countdownd_read_only"] == 0
    other.close()


def test_buckets_never_fall_and_end_with_the_count(client):
    client("TIMER", "SET", "t", "1ms")
    eventually(lambda: client("TIMER", "GET", "t") is None, "t fires")
    values = metrics(client)
    for name in ("timer_lateness_seconds", "batch_commit_seconds"):
        buckets = [v for k, v in values.items() if k.startswith(f"countdownd_{name}_bucket")]
        assert len(buckets) == 19 and buckets == sorted(buckets)
        assert buckets[-1] == values[f"countdownd_{name}_count"]
    assert values['countdownd_timer_lateness_seconds_bucket{le="60"}'] == 1


def test_metrics_of_the_process_are_what_the_kernel_says(daemon, client):
    process = pathlib.Path(f"/proc/{daemon.process.pid}")

    def of(name):
        return metrics(client)[f"countdownd_process_{name}"]

    def descriptors():
        """Returns how many are open. A library may open one between the two looks."""
        def looks_equal():
            count = of("open_fds")
            return count == len(os.listdir(process / "fd")) and count
        return eventually(looks_equal, "it is what the kernel says")

    open_before = descriptors()
    others = [daemon.connect() for _ in range(5)]
    assert descriptors() >= open_before + 5
    for other in others:
        other.close()
    soft = re.search(r"Max open files +(\d+)", (process / "limits").read_text())[1]
    assert of("max_fds") == int(soft)
    born = int(process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[19])
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    started = time.time() - uptime + born / os.sysconf("SC_CLK_TCK")
    assert started - 1 <= of("start_time_seconds") <= time.time()
    page = os.sysconf("SC_PAGESIZE")
    resident = int((process / "statm").read_text().split()[1]) * page
    assert resident / 2 < of("resident_memory_bytes") < resident * 2
    first = of("cpu_seconds_total")
    assert first > 0
    eventually(lambda: of("cpu_seconds_total") > first, "the processor time rises")


@pytest.mark.daemon(virtual_time=True)
def test_a_refused_reload_is_reported_until_one_is_taken(daemon, client):
    def reported():
        return {name.removeprefix("config_last_reload_"): value
                for name, value in daemon.info("server").items() if name.startswith("config")}

    def figures():
        values = metrics(client)
        return (values["countdownd_config_last_reload_successful"],
                int(values["countdownd_config_last_reload_success_timestamp_seconds"] * 1_000 + 1e-3))

    began = int(reported()["success_unix_ms"])
    assert reported() == {"successful": "1", "error": "", "success_unix_ms": str(began)}
    client("CLOCK", "ADVANCE", "5s")
    daemon.config_path.write_text("countdown: {count: 5}\nnonsense: 1\n")
    client.error("ERR", "CONFIG", "RELOAD")
    assert (reported()["successful"], reported()["success_unix_ms"]) == ("0", str(began))
    assert "nonsense: unknown setting" in reported()["error"]
    assert figures() == (0, began)
    daemon.config_path.write_text("countdown: {count: 5}\nlog-level: debug\n")
    client("CONFIG", "RELOAD")
    assert reported() == {"successful": "1", "error": "", "success_unix_ms": str(began + 5_000)}
    assert figures() == (1, began + 5_000)
    # The log names what has changed.
    assert re.search(r"configuration reloaded.*changed=countdown.count,log-level\b", daemon.log)


def test_metrics_count_starts_unclean_ends_and_backups(daemon, client):
    def figures():
        values = metrics(daemon.connect())
        return [values[f"countdownd_{name}"] for name in
                ("process_starts_total", "unclean_ends_total", "last_backup_timestamp_seconds")]

    assert figures() == [1, 0, 0]
    daemon.restart()
    assert figures() == [2, 0, 0]
    daemon.restart("kill")
    assert figures() == [3, 1, 0]
    # A copy that nobody has read is no backup.
    with daemon.connect() as other:
        number = other("BACKUP", "BEGIN")
        eventually(lambda: other("BACKUP", "SIZE", number), "it is made")
        assert isinstance(other("BACKUP", "READ", number, 0, 4_096), bytes)
    assert figures() == [3, 1, 0]
    begun = time.time()
    daemon.back_up(daemon.directory / "copy.db")
    made = figures()[2]
    assert begun - 1 <= made <= time.time() + 1
    file = daemon.state / "history"
    eventually(lambda: f"last-backup {round(made * 1e6)}" in file.read_text(), "it is kept")
    daemon.restart()
    assert figures() == [4, 1, made]
    info = daemon.info("persistence")
    assert [info[name] for name in ("process_starts", "unclean_ends")] == ["4", "1"]
    assert int(info["last_backup_unix_ms"]) == int(made * 1_000 + 1e-3)
    # Nothing else depends on that file.
    daemon.terminate()
    for damage in (lambda file: file.write_bytes(b"\xff\n \nstarts x\nunclean-ends -1\n"), os.mkfifo):
        (daemon.state / "history").unlink()
        damage(daemon.state / "history")
        daemon.start_again()
        assert figures() == [1, 0, 0]
        daemon.terminate()
    daemon.start_again()


@pytest.mark.daemon(arguments=["--durability", "none"])
def test_metrics_of_a_daemon_that_stores_nothing_count_no_starts(client):
    assert "countdownd_process_start_time_seconds" in metrics(client)
    assert not {name for name in metrics(client) if re.search("process_starts|unclean|last_backup", name)}


@pytest.mark.daemon(config="""limits: {max-entities: 4, max-subscriptions: 3, max-connections: 5, max-connections-per-uid: 5}
access: {connect: {users: [65534]}, rules: {own: {users: [65534], keys: ["own:*"], role: read-only}}}
""")
@needs_root
def test_metrics_show_each_limit_its_use_and_who_is_refused(daemon, client):
    def of(name, label):
        return {key.split('"')[1]: value for key, value in metrics(client).items()
                if key.startswith(f"countdownd_{name}{{{label}=")}  # fmt: skip

    open_up(daemon)
    for number in range(6):
        client.either("LIMIT", "TIMER", "SET", f"t{number}", "1h")
    used, most = of("limit_used", "limit"), of("limit_max", "limit")
    assert used.keys() == most.keys() and "max-memory" not in most
    assert (used["max-entities"], most["max-entities"]) == (4, 4)
    assert (used["max-entities-per-uid"], most["max-connections"]) == (4, 5)
    assert used["max-connections"] == used["max-connections-per-uid"] == 1
    refused = of("limit_refusals_total", "limit")
    assert refused["max-entities"] == 2 and refused["max-memory"] == refused["other"] == 0
    rights = of("rights_refusals_total", "setting")
    assert rights == {"access.connect": 0, "access.admin": 0, "access.rules": 0}
    replies = Child(65_534, visit, daemon.path).lines()
    assert [reply.split()[0] for reply in replies] == ["NOPERM", "NOPERM"]
    assert Child(1_234, greeting, daemon.path).lines()[0].startswith("NOPERM uid 1234 may not connect")
    assert of("rights_refusals_total", "setting") == {"access.connect": 1, "access.admin": 1, "access.rules": 1}
    others = [daemon.connect() for _ in range(4)]
    assert Child(65_534, greeting, daemon.path).lines()[0].startswith("LIMIT max-connections is 5")
    assert of("limit_refusals_total", "limit")["max-connections"] == 1
    assert others


def greeting(path):
    """Prints what a client receives that says nothing."""
    with Client(path) as client:
        print(client.refusal("LIMIT NOPERM"))


def visit(path):
    """Prints the replies to a change that the rules refuse, and to a command of administrators."""
    with Client(path) as client:
        print(client.error("NOPERM", "TIMER", "SET", "own:t", "1h"))
        print(client.error("NOPERM", "CONFIG", "GET", "*"))


def test_metrics_show_no_keys(client):
    client("COUNTDOWN", "START", "+4512345678")
    client.error("UNKNOWN", "NONSENSE+4512345678")
    client("TIMER", "SET", "+4512345678", "1h", "PAYLOAD", "+4512345678")
    assert b"4512345678" not in client("METRICS")


def test_countdownctl_prints_metrics(daemon, client):
    done = ctl("metrics", "--socket", daemon.path)
    assert done.returncode == 0
    assert set(samples(done.stdout)) >= {
        name for name in metrics(client) if "commands_total" not in name}


def test_textfile_is_replaced_in_one_step(daemon, tmp_path):
    file = tmp_path / "countdownd.prom"
    file.write_text("old")
    old = file.stat().st_ino
    done = ctl("metrics", "--textfile", file, "--socket", daemon.path)
    assert (done.returncode, done.stdout) == (0, "")
    assert samples(file.read_text())["countdownd_up"] == 1
    assert "countdownd_build_info" in file.read_text() and file.stat().st_ino != old
    # Another user reads the file.
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 & ~umask()
    assert os.listdir(tmp_path) == ["countdownd.prom"]


def umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_textfile_says_that_there_is_no_daemon(tmp_path):
    file = tmp_path / "countdownd.prom"
    file.write_text("old")
    old = file.stat().st_ino
    done = ctl("metrics", "--textfile", file, "--socket", tmp_path / "none")
    assert done.returncode == 3
    assert samples(file.read_text()) == {"countdownd_up": 0} and file.stat().st_ino != old
    assert os.listdir(tmp_path) == ["countdownd.prom"]


def test_textfile_says_that_the_daemon_hangs(daemon, tmp_path):
    file = tmp_path / "countdownd.prom"
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        done = ctl("metrics", "--textfile", file, "--socket", daemon.path, "--wait", "100ms")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert done.returncode == 3 and samples(file.read_text()) == {"countdownd_up": 0}


@pytest.mark.skipif(
    not NODE_EXPORTER, reason="no node_exporter; scripts/install-packages.sh prometheus-node-exporter")
def test_node_exporter_serves_whether_the_daemon_answers(daemon, tmp_path):
    with subprocess.Popen(
        [NODE_EXPORTER, "--web.listen-address=127.0.0.1:0", "--collector.disable-defaults",
         "--collector.textfile", f"--collector.textfile.directory={tmp_path}"],
        stderr=subprocess.PIPE, text=True,
    ) as exporter:  # fmt: skip
        try:
            address = next(found[1] for line in exporter.stderr
                           if (found := re.search(r"address=(127\S+)", line)))  # fmt: skip

            def served():
                with urllib.request.urlopen(f"http://{address}/metrics") as reply:
                    return samples(reply.read().decode())

            file = tmp_path / "countdownd.prom"
            assert ctl("metrics", "--textfile", file, "--socket", daemon.path).returncode == 0
            first = served()
            assert first["countdownd_up"] == 1 and first["countdownd_read_only"] == 0
            assert ctl("metrics", "--textfile", file, "--socket", tmp_path / "none").returncode == 3
            second = served()
            assert second["countdownd_up"] == 0 and "countdownd_read_only" not in second
            age = f'node_textfile_mtime_seconds{{file="{file}"}}'
            assert second[age] > 0 and second["node_textfile_scrape_error"] == 0
        finally:
            exporter.kill()


def test_textfile_that_cannot_be_written_is_an_error(daemon, tmp_path):
    done = ctl("metrics", "--textfile", tmp_path / "none/file.prom", "--socket", daemon.path)
    assert done.returncode == 1 and "No such file or directory" in done.stderr


# Alert rules and dashboard


def test_rules_and_dashboard_read_metrics_that_exist(client):
    known = {re.match(r"\w+", name)[0] for name in metrics(client)}
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    def without_fleets(text):
        return set(re.findall(r"\bcountdownd_(?!fleet_)\w+", text))

    shown = without_fleets(" ".join(expressions))
    client.error("UNKNOWN", "NONSENSE")
    known |= {re.match(r"\w+", name)[0] for name in metrics(client)}
    assert shown <= known
    # The dashboard shows all metrics, except the sums and counts of histograms.
    parts = {name for name in known if re.search("seconds_(sum|count)$", name)}
    assert known - shown == parts
    rules = (MONITORING / "alerts.yaml").read_text()
    assert without_fleets(rules) <= known | {"countdownd_up"}
    table = (PROJECT / "docs/reference/server.md").read_text().partition("## METRICS")[2]
    described = set(re.findall(r"`(\w+)(?:\{[a-z,]+\})?`", table))
    assert {re.sub("_(bucket|sum|count)$", "", name.removeprefix("countdownd_")) for name in known} <= described


def test_rules_dashboard_and_docs_know_the_figures_of_the_gateway():
    """They are those of its source: the gateway is a build of its own."""
    source = (PROJECT / "Gateway/Sources/Gateway/Figures.swift").read_text()
    known = {f"countdown_gateway_{name}" for name in re.findall(r'family\(\s*"(\w+)"', source)}
    assert len(known) == 6

    def named(text):
        return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bcountdown_gateway_\w+", text)}

    panels = json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]
    assert named(" ".join(target["expr"] for panel in panels for target in panel["targets"])) == known
    assert named((PROJECT / "docs/howto/monitor.md").read_text()) == known
    rules = (MONITORING / "alerts.yaml").read_text()
    assert named(rules) == {"countdown_gateway_refusals_total", "countdown_gateway_streams_opened_total"}


@needs_promtool
def test_promtool_finds_nothing_wrong_with_metrics(client):
    client.error("UNKNOWN", "NONSENSE")
    client("COUNTDOWN", "START", "a")
    assert promtool("check", "metrics", text=client("METRICS").decode()) == ""


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_rules():
    promtool("check", "rules", str(MONITORING / "alerts.yaml"))


# The buckets of a histogram.
BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]


def histogram(name, instance, bound, below):
    """Returns a histogram with one burst: of 10 in a minute, `below` are at most `bound` seconds."""
    buckets = [*((f"{le:.5f}".rstrip("0").rstrip("."), below if le <= bound else 10) for le in BOUNDS), ("+Inf", 10)]
    return {f'countdownd_{name}_bucket{{instance="{instance}",le="{le}"}}': f"0x3 {count}x3100"
            for le, count in buckets}  # fmt: skip


def gauge(name, bad, good):
    return {f'countdownd_{name}{{instance="bad"}}': bad, f'countdownd_{name}{{instance="good"}}': good}


def labelled(name, label, bad, good):
    """The samples with one more label, such as `limit="max-memory"`."""
    return {f'countdownd_{name}{{instance="{instance}",{label}}}': values
            for instance, values in [("bad", bad), ("good", good)]}  # fmt: skip


def refusals(status, bad, good):
    return {f'countdown_gateway_refusals_total{{instance="{instance}",status="{status}"}}': values
            for instance, values in [("bad", bad), ("good", good)]}  # fmt: skip


def mtime(instance, file=FILE):
    return f'node_textfile_mtime_seconds{{instance="{instance}",file="{file}"}}'


# One burst, and nothing afterwards.
BURST = "0x4 7x3100"

# For each alert: what Prometheus reads each minute from a host that is bad and from one that is
# good, and the minute in which the alert begins to fire for the bad one. All other samples are those
# of a real daemon that is well.
ALERTS = {
    "CountdowndDown": (gauge("up", "1 1 0x3100", "1x3100"), 4),
    "CountdowndFiguresOld": (
        {mtime("bad"): "0+60x9 540x3100", mtime("good"): "0+60x3100", mtime("good", "/else.prom"): "0x3100"},
        16,
    ),
    # One restart in each minute; a good host was restarted twice.
    "CountdowndRestarts": (gauge("process_start_time_seconds", "100+60x3100", "100 160 220x3100"), 3),
    "CountdowndUncleanEnd": (gauge("unclean_ends_total", "3x4 4x3100", "3x3100"), 5),
    "CountdowndBackupOld": (gauge("last_backup_timestamp_seconds", "60x3100", "0x3100"), 2882),
    "CountdowndReadOnly": (gauge("read_only", "0x5 1x3100", "0x3100"), 7),
    "CountdowndDamaged": (gauge("damaged", "0x3 1x3100", "0x3100"), 4),
    "CountdowndFoldingFails": (gauge("folding_fails", "0 1x3100", "0 1x4 0x3100"), 6),
    "CountdowndFewDescriptors": (
        gauge("process_open_fds", "90 91x3100", "90x3100") | gauge("process_max_fds", "100x3100", "100x3100"),
        6,
    ),
    "CountdowndMissingDescriptors": (gauge("process_missing_fds", "0 136x3100", "0x3100"), 6),
    "CountdowndLogLinesLost": (gauge("log_lost_lines_total", "0x5 9x3100", "5x3100"), 6),
    "CountdowndReloadRefused": (gauge("config_last_reload_successful", "1 0x3100", "1x3100"), 2),
    "CountdowndLoading": (gauge("loading", "1x3100", "1x4 0x3100"), 5),
    # Over before the next reading.
    "CountdowndLimitBlocked": (gauge("limits_blocked_total", "0x5 1x3100", "0x3100"), 6),
    "CountdowndLate": (
        histogram("timer_lateness_seconds", "bad", 0.1, 9)
        | histogram("timer_lateness_seconds", "good", 0.1, 10),
        9,
    ),
    "CountdowndSlowDisk": (
        histogram("batch_commit_seconds", "bad", 0.5, 9)
        | histogram("batch_commit_seconds", "good", 0.5, 10),
        9,
    ),
    "CountdowndRejectsConnections": (gauge("rejected_connections_total", BURST, "5x3100"), 5),
    "CountdowndDisconnectsSlowReaders": (
        gauge("output_limit_disconnections_total", BURST, "5x3100"), 5),
    "CountdowndNearLimit": (
        labelled("limit_used", 'limit="max-subscriptions"', "90 91x3100", "90x3100")
        | labelled("limit_max", 'limit="max-subscriptions"', "100x3100", "100x3100"),
        6,
    ),
    "CountdowndRefusesAtLimit": (
        labelled("limit_refusals_total", 'limit="max-entities"', BURST, "5x3100")
        | labelled("limit_refusals_total", 'limit="max-payload-length"', "0x3100", BURST),
        5,
    ),
    "CountdowndRefusesByRights": (
        labelled("rights_refusals_total", 'setting="access.rules"', "0x4 20x3100", "0x4 5x3100"), 5),
    "CountdownGatewayUnavailable": (refusals(503, BURST, "5x3100") | refusals(404, "5x3100", "0+1x3100"), 5),
    "CountdownGatewayAtLimit": (refusals(429, BURST, "5x3100") | refusals(404, "5x3100", "0+1x3100"), 5),
    "CountdownGatewayTicketsRefused": (
        refusals(401, "0x4 20x3100", "0+5x3100")
        | {f'countdown_gateway_streams_opened_total{{instance="{instance}"}}': values
           for instance, values in [("bad", "7x3100"), ("good", "0+1x3100")]},
        5,
    ),
    "CountdowndFleetSentinels": (gauge("fleet_sentinels_reachable", "1 0x3100", "1 0x4 1x3100"), 6),
    "CountdowndFleetUnreachable": (
        gauge("fleet_open_partitions", "16 15x3100", "16x3100") | gauge("fleet_partitions", "16x3100", "16x3100"), 3),
    "CountdowndFleetRefusesChanges": (
        {f'countdownd_fleet_refused_partitions{{instance="{host}",cause="{cause}"}}': values
         for host, cause, values in [("bad", "memory", "0x2 4x3100"), ("bad", "rights", "0x3100"),
                                     ("good", "memory", "0x3100")]},
        4,
    ),
    "CountdowndFleetUnread": (gauge("fleet_unread_partitions", "0x2 1x3100", "0x3100"), 4),
    "CountdowndFleetHeartbeatOld": (gauge("fleet_heartbeat_age_seconds", "0 1 60+60x3100", "1x3100"), 3),
    "CountdowndFleetLostRecords": (gauge("fleet_refuses", "0x4 1x3100", "0x3100"), 5),
    "CountdowndFleetClockAhead": (gauge("fleet_partitions_with_clock_ahead", "0 2x3100", "0x3100"), 2),
    "CountdowndFleetPoliciesDiffer": (gauge("fleet_policies_differ", "1x3100", "1x5 0x3100"), 10),
    "CountdowndFleetUnsure": (
        labelled("fleet_commands_total", 'result="unsure"', BURST, "5x3100")
        | labelled("fleet_commands_total", 'result="changed"', "0x3100", "0+9x3100"),
        5,
    ),
}  # fmt: skip


def test_each_alert_has_a_case():
    rules = (MONITORING / "alerts.yaml").read_text()
    assert set(re.findall(r"- alert: (\w+)", rules)) == set(ALERTS)


def parsed(series):
    """Returns the name of a sample, and its labels but for the instance."""
    name, _, labels = series.partition("{")
    return name, frozenset(label for label in re.findall(r'\w+="[^"]*"', labels) if not label.startswith("instance="))


class Watched(Single):
    """A Redis server that a Sentinel names."""

    discovery = "sentinel"

    def __init__(self):
        ports = [reserved_port() for _ in range(2)]
        super().__init__(port=ports[0])
        self.nodes = [f"127.0.0.1:{ports[1]}"]
        settings = self.directory / "sentinel.conf"
        settings.write_text(
            f"port {ports[1]}\nbind 127.0.0.1\ndir {self.directory}\nsentinel monitor mymaster 127.0.0.1 {ports[0]} 1\n")
        self.sentinel = subprocess.Popen(["redis-server", settings, "--sentinel"], stdout=subprocess.DEVNULL)

    nodes = None

    def close(self):
        self.sentinel.kill()
        self.sentinel.wait()
        super().close()


@contextlib.contextmanager
def watched_fleet(folder):
    """Yields the servers of a fleet, and a function that returns the samples that `countdownctl
    metrics --textfile` writes for its daemon, by name and labels."""
    servers = Watched()
    # However few files a process may open on this machine: these are enough.
    fleet = Fleet(servers, [None], replicas=0, config="limits: {max-connections: 100}\n")

    def read():
        file = folder / "countdownd.prom"
        assert ctl("metrics", "--textfile", file, "--socket", fleet.daemons[0].path).returncode == 0
        return {parsed(name): value for name, value in samples(file.read_text()).items()}

    yield servers, read
    fleet.close()
    servers.close()


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    with watched_fleet(tmp_path_factory.mktemp("figures")) as (_, read):
        return read()


def test_metrics_count_the_sentinels_that_answer(tmp_path):
    with watched_fleet(tmp_path) as (servers, read):
        reachable, all = [(f"countdownd_fleet_sentinels{end}", frozenset()) for end in ("_reachable", "")]
        assert (read()[reachable], read()[all]) == (1, 1)
        servers.sentinel.kill()
        eventually(lambda: (read()[reachable], read()[all]) == (0, 1), "it does not answer")


@needs_promtool
@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_for_a_bad_host_alone(tmp_path, figures, alert):
    series, minute = ALERTS[alert]
    changed = {parsed(name) for name in series}
    assert {name for name in changed if name[0].startswith("countdownd_")} <= set(figures), "no daemon has these figures"
    well = {f'{name}{{{",".join(sorted({f"instance={json.dumps(host)}"} | labels))}}}': f"{value}x3100"
            for (name, labels), value in figures.items() for host in ("bad", "good")
            if (name, labels) not in changed}  # fmt: skip
    case = tmp_path / "test.yaml"
    firing = 'count by (alertname, instance) (ALERTS{alertstate="firing"})'
    sample = {"labels": f'{{alertname="{alert}", instance="bad"}}', "value": 1}
    case.write_text(json.dumps({
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in (well | series).items()],
            "promql_expr_test": [
                {"eval_time": f"{at}m", "expr": firing, "exp_samples": samples}
                for at, samples in [(minute - 1, []), (minute, [sample]), (minute + 1, [sample])]
            ],
        }],
    }))  # fmt: skip
    promtool("test", "rules", str(case))


@needs_promtool
def test_the_alert_of_old_figures_fires_for_a_file_that_was_deleted(tmp_path):
    case = tmp_path / "test.yaml"
    sample = {"labels": '{alertname="CountdowndFiguresOld", instance="bad"}', "value": 1}
    case.write_text(json.dumps({
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": mtime("bad"), "values": "0+60x9 stale _x30"}],
            "promql_expr_test": [
                {"eval_time": f"{at}m", "exp_samples": samples,
                 "expr": 'count by (alertname, instance) (ALERTS{alertstate="firing"})'}
                for at, samples in [(15, []), (16, [sample]), (30, [sample])]
            ],
        }],
    }))  # fmt: skip
    promtool("test", "rules", str(case))
