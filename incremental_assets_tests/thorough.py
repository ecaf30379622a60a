"""A pytest plugin, of `make test`: which tests are left to a thorough run, `make test-all`.

A test is left to it where other tests, of each run, hold the same promise: a further seed, a further
pair of a detector and a write, the same story once more through processes that are killed. What a
new test promises is tested in each run.
"""

from __future__ import annotations

from typing import Final

import pytest

ALL_COLLECTED: Final = pytest.StashKey[list[str]]()
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
    "end_to_end/test_kill_loaders.py": "loaders/test_killed_at_each_commit.py",
    "test_wheel.py::test_another_project": (
        "test_wheel.py: what the wheel holds, settings/test_settings.py: the cache, "
        "testing/test_page.py, end_to_end/test_add_a_table.py"
    ),
    # A further seed, order, or pair of a detector and a write, in the process of the tests.
    "feeds/test_snapshots.py::test_snapshots_in_any_order_damaged_and_repaired_ones_end_in_the_"
    "same_products[3]": "feeds/test_snapshots.py: another seed",
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
    "if_it_had_not[append]": "loaders/test_target_replays.py: a log, with history",
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
    "retail/feed/test_land.py::test_the_bytes": "retail/feed/test_land.py: the other tests",
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
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is left to a thorough run."""
    config.stash[ALL_COLLECTED] = [item.nodeid for item in items]
    left = [item for item in items if item.nodeid.startswith(names_left())]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


def names_left() -> tuple[str, ...]:
    return tuple(f"{__package__}/{name}" for name in LEFT_TO_ALL)
