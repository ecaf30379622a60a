"""Tests that are left to a thorough run, `make test-all`; a pytest plugin of `make test`, without them.

A test is left to it where other tests, of each run, hold the same promise: a further seed, a further
pair of a detector and a write, the same story once more through processes that are killed. What a
new test promises is tested in each run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
# The beginning of a test's name → where each run tests what it promises.
LEFT_TO_ALL: Final = {
    # Whole projects, in processes of their own.
    "end_to_end/test_elsewhere.py::test_a_run_on_a_connect_server": (
        "end_to_end/test_own_tables.py: all kinds of tables, on a Connect server"
    ),
    "end_to_end/test_elsewhere.py::test_a_run_on_a_cluster": (
        "end_to_end/test_elsewhere.py: the loaders, on a Connect server"
    ),
    "end_to_end/test_gates_hold.py": (
        "scenarios/test_gate.py, feeds/test_rules.py, feeds/test_gate_of_other_days.py, "
        "end_to_end/test_command_line.py: a range with a held day"
    ),
    "end_to_end/test_sensors.py::test_days_of_deliveries": (
        "orchestration/test_sensors.py, orchestration/test_source_sensors.py, "
        "end_to_end/test_sensors.py: a backfill that was killed"
    ),
    "end_to_end/test_sensors.py::test_what_a_backfill_did_not_load": (
        "end_to_end/test_sensors.py: a backfill that was killed"
    ),
    "end_to_end/test_kill.py": (
        "scenarios/test_interrupted.py, feeds/test_interrupted.py, end_to_end/test_interrupt.py, "
        "end_to_end/test_sensors.py: a backfill that was killed"
    ),
    "end_to_end/test_own_tables.py::test_kills": "feeds/test_interrupted.py",
    "kafka/test_killed.py": "kafka/test_interrupted.py",
    "feeds/test_unchanged_killed.py": (
        "loaders/test_killed_at_each_commit.py, loaders/test_unchanged.py, feeds/test_unchanged.py: "
        "killed at each commit, what a first load left, on a Connect server"
    ),
    "debezium/test_from_sql.py::test_a_connector_that_is_killed_amid_random_changes": (
        "debezium/test_from_sql.py: one that is killed between changes of each kind"
    ),
    "end_to_end/test_kill_loaders.py": "loaders/test_killed_at_each_commit.py",
    "test_wheel.py::test_another_project": (
        "test_wheel.py: what the wheel holds, settings/test_settings.py: the cache, "
        "testing/test_page.py, end_to_end/test_add_a_table.py"
    ),
    # A further seed, order, or pair of a detector and a write, in the process of the tests.
    "feeds/test_snapshots.py::test_snapshots_in_any_order_damaged_and_repaired_ones_end_in_the_"
    "same_products[3]": "feeds/test_snapshots.py: another seed",
    "feeds/test_partial_snapshots.py::test_snapshots_of_regions_give_one_history_in_any_order[2]": (
        "feeds/test_partial_snapshots.py: another seed"
    ),
    "feeds/test_partial_snapshots.py::test_snapshots_of_regions_give_one_history_in_any_order[3]": (
        "feeds/test_partial_snapshots.py: another seed"
    ),
    "feeds/test_unchanged.py::test_an_unchanged_field_keeps_its_value_in_whatever_order_events_come["
    "loads0": "feeds/test_unchanged.py: another order",
    "loaders/test_unchanged.py::test_an_unchanged_column_keeps_its_value_in_whatever_order_events_"
    "come[order0]": "loaders/test_unchanged.py: another order",
    "feeds/test_gate_of_other_days.py::test_a_rebuild_publishes_nothing_of_days_that_were_held_or_"
    "not_judged[rows]": "feeds/test_gate_of_other_days.py: the same of changes",
    "feeds/test_change_log.py::test_a_truncate_ends_every_row": "loaders/test_truncates.py",
    "feeds/test_rebuild_ledger.py::test_after_a_lost_ledger_nothing_is_lost_and_nothing_doubled["
    "trains": "feeds/test_rebuild_ledger.py: other feeds",
    "feeds/test_interrupted.py::test_a_load_that_died_is_settled_and_ends_as_if_nothing_had_"
    "happened[products": "feeds/test_interrupted.py: orders and users",
    "feeds/test_stored_days.py::test_a_new_row_costs_the_same_over_ten_times_the_history": (
        "feeds/test_cost.py"
    ),
    "feeds/test_snapshot_base.py::test_a_load_that_dies": "feeds/test_interrupted.py: users",
    "feeds/test_history_in_time.py::test_intervals_are_times_in_whatever_order_the_days_come["
    "order1": "feeds/test_history_in_time.py: another order",
    "feeds/test_null_keys.py::test_what_an_earlier_version_merged": "feeds/test_restate.py",
    "feeds/test_rewind.py::test_a_log_is_read_again_and_no_change_is_there_twice[a folder]": (
        "feeds/test_rewind.py: the same in day folders"
    ),
    "loaders/test_target_operations.py::test_a_debezium_log_is_verified_replayed_and_rewound["
    "merge-files]": "loaders/test_target_operations.py: the same with history, in Delta",
    "loaders/test_target_operations.py::test_a_delta_log_is_verified_replayed_and_rewound": (
        "loaders/test_target_operations.py: Debezium's log with history, in Delta"
    ),
    "loaders/test_killed_at_each_commit.py::test_a_load_that_dies_after_any_commit_goes_on_and_"
    "ends_as_if_it_had_not[copies, history]": "loaders/test_killed_at_each_commit.py: copies, merge",
    "loaders/test_killed_at_each_commit.py::test_a_load_that_dies_after_any_commit_goes_on_and_"
    "ends_as_if_it_had_not[log, merge]": "loaders/test_killed_at_each_commit.py: log, history",
    "loaders/test_matrix.py::test_each_step_changes_just_what_it_should_also_where_a_load_before_"
    "it_died[sequence, history]": "loaders/test_matrix.py: timestamp, history",
    "loaders/test_matrix.py::test_each_step_changes_just_what_it_should_also_where_a_load_before_"
    "it_died[sequence, merge]": "loaders/test_matrix.py: timestamp, merge",
    "loaders/test_matrix.py::test_each_step_changes_just_what_it_should_also_where_a_load_before_"
    "it_died[timestamp, append]": "loaders/test_matrix.py: sequence, append",
    "loaders/test_matrix.py::test_each_step_changes_just_what_it_should_also_where_a_load_before_"
    "it_died[timestamp, replace whole days]": "loaders/test_matrix.py: sequence, the same write",
    "loaders/test_matrix_deletes.py::test_each_step_changes_just_what_it_should_also_where_a_load_"
    "before_it_died[snapshot diff, merge]": "loaders/test_matrix_deletes.py: with history",
    "loaders/test_matrix_deletes.py::test_each_step_changes_just_what_it_should_also_where_a_load_"
    "before_it_died[change log, history]": "loaders/test_matrix_deletes.py: change log, merge",
    "loaders/test_target_replays.py::test_a_replay_that_dies_after_any_commit_goes_on_and_ends_as_"
    "if_it_had_not[log, history]": (
        "loaders/test_target_replays.py, loaders/test_killed_at_each_commit.py: appended rows"
    ),
    "loaders/test_truncates.py::test_a_load_after_many_truncates_is_planned_as_one_after_few["
    "merge]": "loaders/test_truncates.py: with history",
    "loaders/test_truncates.py::test_truncates_that_an_earlier_version_kept_in_the_ledger_go_on["
    "history]": "loaders/test_truncates.py: merge",
    "loaders/test_cdc.py::test_any_order_repetition_and_interruption_ends_in_the_same_table["
    "state]": "loaders/test_cdc.py: with history",
    "maintenance/test_while_loads_go_on.py::test_loads_and_maintenance_in_a_loop": (
        "maintenance/test_while_loads_go_on.py: one load after another"
    ),
    "spark/test_start.py::test_sessions_of_a_process_share_a_java_that_ends_with_it[submitted]": (
        "spark/test_start.py: a session as it is"
    ),
    "spark/test_start.py::test_sessions_of_a_process_share_a_java_that_ends_with_it[of a file]": (
        "spark/test_start.py: a session as it is"
    ),
    "scenarios/test_quarantine_is_tidied.py::test_a_row_that_nobody_can_decode_blocks_nothing["
    "a file of its own]": "scenarios/test_quarantine_is_tidied.py: a file of more batches",
    "verifying/test_kinds.py::test_scd2_of_a_log_with_deletes[True]": (
        "verifying/test_kinds.py: the same in order"
    ),
    "verifying/test_kinds.py::test_running_levels": "verifying/test_retail.py",
    "feeds/test_rebuild_ledger.py::test_after_a_lost_ledger_nothing_is_lost_and_nothing_doubled["
    "products": "feeds/test_rebuild_ledger.py: users and orders",
    "maintenance/test_while_loads_go_on.py::test_versions_that_a_load_compares": (
        "maintenance/test_while_loads_go_on.py: one load after another"
    ),
    "scenarios/test_join.py::test_days_that_are_merged_in_any_order": (
        "scenarios/test_order_free.py: shuffled loads, scenarios/test_join.py: a late sale alone"
    ),
    "feeds/test_keys.py::test_many_random_loads": (
        "feeds/test_keys.py: levels in whatever order the days are loaded"
    ),
    "loaders/test_killed_at_each_commit.py::test_a_load_that_dies_after_any_commit_goes_on_and_"
    "ends_as_if_it_had_not[timestamp, merge]": "loaders/test_killed_at_each_commit.py: copies",
    "spark/test_start.py::test_a_java_that_is_left": "spark/test_start.py: a session as it is",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[6]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[7]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[8]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[9]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[10]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_indexed_history.py::test_all_questions_have_the_answers_that_the_whole_"
    "history_gives[11]": "ledger/test_indexed_history.py: seeds 0 to 5",
    "ledger/test_tail.py::test_tail_and_watermarks_are_what_the_history_says_however_files_"
    "lie[4-": "ledger/test_tail.py: seeds 0 to 3",
    "ledger/test_tail.py::test_tail_and_watermarks_are_what_the_history_says_however_files_"
    "lie[5-": "ledger/test_tail.py: seeds 0 to 3",
    "ledger/test_tail.py::test_tail_and_watermarks_are_what_the_history_says_however_files_"
    "lie[6-": "ledger/test_tail.py: seeds 0 to 3",
    "ledger/test_tail.py::test_tail_and_watermarks_are_what_the_history_says_however_files_"
    "lie[7-": "ledger/test_tail.py: seeds 0 to 3",
    "retail/reports/test_reports.py::test_the_command_line_reports_a_day": (
        "retail/reports/test_reports.py, end_to_end/test_definitions.py: both reports are there"
    ),
    "delta/test_merge.py::test_the_rows_of_a_file_are_replaced_and_others_carried_forward["
    "to nothing-among many]": "delta/test_merge.py: the other two of the four",
    "delta/test_merge.py::test_the_rows_of_a_file_are_replaced_and_others_carried_forward["
    "to a row-among few]": "delta/test_merge.py: the other two of the four",
    "quality/test_shapes.py::test_a_known_shape_changes_nothing[any field-2]": (
        "quality/test_shapes.py: seed 1"
    ),
    "quality/test_shapes.py::test_a_known_shape_changes_nothing[fields asked for-2]": (
        "quality/test_shapes.py: seed 1"
    ),
    "loaders/test_target_verified.py::test_a_target_is_equal_until_somebody_changes_it["
    "sequence, merge]": (
        "loaders/test_target_verified.py, loaders/test_target_operations.py: by timestamp"
    ),
    "loaders/test_target_verified.py::test_a_target_is_equal_until_somebody_changes_it"
    "[log, history]": "loaders/test_target_operations.py: Debezium's log with history, in Delta",
    "loaders/test_target_replays.py::test_rows_that_pass_the_rules_of_today_are_loaded_and_"
    "leave_quarantine[sequence, merge]": "loaders/test_target_replays.py: by timestamp",
    "loaders/test_target_replays.py::test_a_row_that_is_repaired_or_gone_at_the_source": (
        "loaders/test_target_replays.py: only a row that is tried"
    ),
    "loaders/test_spelling.py::test_a_column_that_changes_its_case_is_read_as_before_by_every"
    "_reader[with_history]": "loaders/test_spelling.py: by sequence",
    "loaders/test_snapshots.py::test_what_differs_is_the_same_in_a_large_snapshot[4194304]": (
        "loaders/test_snapshots.py: without a broadcast, and the other tests"
    ),
    "loaders/test_cost.py::test_a_load_takes_this_many_jobs_and_reads_its_source_once["
    "change log]": "loaders/test_cost.py: history and merge",
    "loaders/test_debezium_log.py::test_a_topic_dumped_as_key_and_value_is_read_with_deletes_"
    "that_only_the_key_names[bytes]": (
        "loaders/test_debezium_log.py, sources/test_stored_parquet.py: text, and bytes"
    ),
    "loaders/test_odd_values.py::test_a_number_with_leading_zeros_is_not_the_number_without[csv]": (
        "loaders/test_odd_values.py, sources/test_stored_csv.py: the same in JSON"
    ),
    "loaders/test_odd_values.py::test_scd2_is_neither_switched_on_nor_off[off]": (
        "loaders/test_target_rewinds.py: a target that holds versions stays one"
    ),
    "loaders/test_odd_values.py::test_a_batch_that_replaces_others_is_never_a_part_of_what_"
    "came[write1]": "loaders/test_odd_values.py: another write",
    "loaders/test_keys.py::test_a_target_that_is_filled_by_no_key_is_not_loaded_by_one_for_it"
    "_may_hold_it_twice[{'write'": "loaders/test_keys.py: a target that was appended to",
    "loaders/test_main.py::test_the_command_runs_in_a_process": (
        "loaders/test_main.py, spark/test_start.py: the same in the process of the tests"
    ),
    "feeds/test_damaged_lines.py::test_rows_of_a_damaged_line_are_not": (
        "feeds/test_snapshots.py: a damaged snapshot"
    ),
    "feeds/test_contracts.py::test_a_field_that_the_table_has_already_is_loaded_also_where_a_"
    "transform_drops_columns[dropped0]": "feeds/test_contracts.py: other columns that are dropped",
    "feeds/test_timestamp.py::test_any_format_of_a_source_is_read_the_same_way[parquet]": (
        "feeds/test_timestamp.py, feeds/test_sequence.py: other formats, and Parquet by number"
    ),
    "feeds/test_stored_days.py::test_a_row_that_changes_and_keeps_its_timestamp_is_loaded["
    "parquet]": "feeds/test_stored_days.py: in Delta",
}


def thorough(held_by: str) -> pytest.MarkDecorator:
    """Mark a test, a parameter or a module (`pytestmark`) that is left to a thorough run.

    `held_by` names the files whose tests, of each run, hold the same promise, and how:
    "feeds/test_keys.py, feeds/test_late.py: another seed".
    """
    return pytest.mark.thorough(held_by)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is left to a thorough run, if each run of the whole holds its promise."""
    left = {item.nodeid: held_by for item in items if (held_by := _held_by(item))}
    run = [item for item in items if item.nodeid not in left]
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        files = {str(item.path.relative_to(TESTS)) for item in run}
        for test, held_by in left.items():
            for file in held_by.partition(":")[0].split(", "):
                if file not in files:
                    raise pytest.UsageError(f"{test}: no test of each run is in {file!r}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = run


def _held_by(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("thorough")
    if marker is not None:
        return str(marker.args[0])
    name = item.nodeid.removeprefix(f"{__package__}/")
    return next((by for start, by in LEFT_TO_ALL.items() if name.startswith(start)), None)
