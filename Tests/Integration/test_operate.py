"""Each row of docs/howto/operate.md names what really happens, and tests show each sign that it names."""

import ast
import pathlib
import re

import pytest

from countdownd import PROJECT
from test_metrics import ALERTS

PAGE = (PROJECT / "docs/howto/operate.md").read_text()
FOLDER = pathlib.Path(__file__).parent

# The tests of each row, which begin with its first words. That of all alerts is
# `test_an_alert_fires_for_a_bad_host_alone`.
ROWS = {
    "the daemon does not run": ["test_health::test_health_of_a_daemon_that_is_not_there",
                                "test_metrics::test_textfile_says_that_there_is_no_daemon"],
    "it cannot start": ["test_systemd::test_a_configuration_that_is_refused_is_not_tried_again",
                        "test_systemd::test_a_state_that_cannot_be_read_is_said_in_the_status_after_all_tries",
                        "test_systemd::test_no_socket_from_systemd_is_said"],
    "it was killed": ["test_health::test_an_unclean_end_is_logged_at_the_next_start",
                      "test_systemd::test_damage_is_in_the_journal_and_the_status"],
    "it starts again and again": ["test_metrics::test_metrics_count_starts_unclean_ends_and_backups"],
    "nobody writes its figures": ["test_metrics::test_node_exporter_serves_whether_the_daemon_answers",
                                  "test_metrics::test_the_alert_of_old_figures_fires_for_a_file_that_was_deleted"],
    "the disk is full": ["test_store_trouble::test_a_full_disk_refuses_changes_before_they_are_made",
                         "test_store_trouble::test_a_full_disk_can_be_backed_up_to_another_one"],
    "the change log cannot be folded": ["test_store_trouble::test_folding_that_fails_is_reported"],
    "the newest state is missing": [
        "test_missing_state::test_a_missing_newest_state_is_not_replaced_by_the_one_before",
        "test_systemd::test_a_state_that_cannot_be_read_is_said_in_the_status_after_all_tries"],
    "the state is damaged": ["test_health::test_damage_is_reported_until_it_is_acknowledged",
                             "test_systemd::test_damage_is_in_the_journal_and_the_status"],
    "a reload is refused": ["test_metrics::test_a_refused_reload_is_reported_until_one_is_taken",
                            "test_health::test_health_reports_a_refused_reload"],
    "a client gets `NOPERM` for a key": ["test_metrics::test_metrics_show_each_limit_its_use_and_who_is_refused",
                                         "test_rights::test_each_user_reads_and_changes_what_the_rules_say"],
    "somebody has changed": ["test_rights::test_the_log_says_who_was_let_change_anothers_entity"],
    "connections are refused": ["test_health::test_root_is_let_in_beyond_the_limits",
                                "test_access::test_only_named_users_may_connect",
                                "test_bad_input::test_connections_beyond_the_limit_are_refused"],
    "a client does not read": ["test_events::test_beyond_max_output_the_connection_is_closed"],
    "a limit is nearly reached": ["test_metrics::test_metrics_show_each_limit_its_use_and_who_is_refused",
                                  "test_health::test_health_reports_limits_that_are_nearly_reached",
                                  "test_clear::test_keys_that_match_are_ended"],
    "too much memory": ["test_health::test_memory_beyond_its_limit_refuses_new_entities_only"],
    "the service may open too few files": ["test_health::test_too_few_descriptors_are_reported"],
    "no file can be opened": ["test_store_trouble::test_a_daemon_that_may_open_too_few_files_says_so",
                              "test_systemd_trouble::test_clients_that_take_all_descriptors_do_not_stop_the_heartbeats"],
    "the journal hangs": [
        "test_systemd_trouble::test_a_journal_that_stands_still_stops_neither_the_daemon_nor_its_start",
        "test_systemd_trouble::test_who_causes_more_of_the_audit_than_a_slow_journal_takes_waits_for_it"],
    "loading takes long": ["test_loading::test_commands_that_need_state_get_loading_and_others_are_answered"],
    "events are late": ["test_terminal::test_top_shows_the_load"],
    "the disk is slow": ["test_metrics::test_buckets_never_fall_and_end_with_the_count"],
    "no backup is made": ["test_metrics::test_metrics_count_starts_unclean_ends_and_backups",
                          "test_systemd::test_the_backup_timer_makes_checks_and_keeps_copies"],
    "codes are bought that nobody enters": ["test_limits::test_figures_count_what_limits_refuse"],
    "pages are not served": ["../Screen/test_gateway::test_streams_survive_the_daemon_and_report_the_outage"],
    "pages are turned away": ["../Screen/test_gateway::test_an_address_has_64_streams"],
    "no ticket is accepted": ["../Screen/test_gateway::test_wrong_and_expired_tickets_are_refused_with_401"],
    "servers of a fleet cannot be used": ["test_fleet::test_a_server_that_may_evict_keys_is_not_used_any_more",
                                          "test_fleet::test_a_refused_connection_is_the_answer_at_once"],
    "a server of a fleet refuses changes": [
        "test_fleet::test_a_server_that_refuses_changes_is_reported_with_the_cause"],
    "the changes of other hosts cannot be read": ["test_fleet::test_streams_that_cannot_be_read_are_reported"],
    "Sentinels do not answer": ["test_metrics::test_metrics_count_the_sentinels_that_answer"],
    "a host that joins a fleet hides": ["test_fleet::test_import_moves_hidden_entities_once_and_leaves_taken_keys"],
    "servers of a fleet have lost records": ["test_fleet::test_lost_records_are_one_line_in_the_log"],
    "a server's clock is ahead": [],
    "hosts of a fleet have different policies": [],
    "replicas do not confirm": ["../Fleet/test_faults::test_a_change_that_no_replica_confirms_is_unsure"],
}


def rows():
    """Returns what can happen, and how it is seen."""
    table = PAGE.partition("|---|---|---|\n")[2].partition("\n\n")[0]
    return [line.removeprefix("| ").split(" | ")[:2] for line in table.splitlines()]


def test_each_row_has_its_tests():
    assert len(rows()) == len(ROWS)
    for (row, _), begin in zip(rows(), ROWS):
        assert row.startswith(begin)


def source_of(test):
    """Returns the source of a test, with that of all in its file that it uses."""
    file, _, function = test.partition("::")
    text = (FOLDER / f"{file}.py").read_text()
    known = {}
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        known |= {getattr(target, "name", getattr(target, "id", None)): node for target in targets}
    used, names = [], [function]
    for name in names:
        node = known[name]
        decorators = getattr(node, "decorator_list", [])
        used += [ast.get_source_segment(text, part) for part in [*decorators, node]]
        found = {getattr(part, "id", getattr(part, "arg", None)) for part in ast.walk(node)}
        names += [name for name in found & known.keys() if name not in names]
    return "\n".join(used)


def signs(text):
    """Returns the signs by which a row is seen, apart from alerts."""
    texts = [sign for alert, sign in re.findall(r"(alert )?`([^`]+)`", text) if not alert]
    texts = [re.sub(r"^countdownctl (\w+) (\w+)$", r'"\1", "\2"', text) for text in texts]
    return texts + re.findall(r"status (\d+)", text)


@pytest.mark.parametrize("row", range(len(ROWS)), ids=ROWS.keys())
def test_the_tests_of_a_row_show_how_it_is_seen(row):
    seen, tests = rows()[row][1], list(ROWS.values())[row]
    shown = "\n".join(map(source_of, tests))
    assert [sign for sign in signs(seen) if sign not in shown] == []
    alerts = re.findall(r"alert `(\w+)`", seen)
    assert tests or alerts and set(alerts) <= ALERTS.keys()


def test_each_alert_is_in_a_row():
    rules = (PROJECT / "packaging/monitoring/alerts.yaml").read_text()
    assert set(re.findall(r"- alert: (\w+)", rules)) == set(re.findall(r"alert `(\w+)`", PAGE))
