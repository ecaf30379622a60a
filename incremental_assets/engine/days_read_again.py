"""The days of a target that are read again whole: their other rows are judged, too."""

from __future__ import annotations

from dataclasses import replace

from incremental_assets.changes.detector import NewRows
from incremental_assets.changes.source_rows import unseen
from incremental_assets.changes.target_state import TargetState
from incremental_assets.engine.target import TargetTable
from incremental_assets.frames import Frames
from incremental_assets.plurals import counted
from incremental_assets.quality.gate import count
from incremental_assets.quality.judge import judge_target, require_passed
from incremental_assets.quality.reasons import is_good
from incremental_assets.quality.rule import RowRule
from incremental_assets.writes.whole_days import days_in, is_of_days


def with_rows_of_days(
    target: TargetTable, state: TargetState, frames: Frames, new: NewRows
) -> NewRows:
    """The new rows, and the bad ones among the others of their days, where these are read whole.

    They were loaded and break a rule of today, or came late: they go to quarantine. Raises
    GateError where others of them, which would be published, break a rule that holds a load.
    """
    day = target.write.replaced_partition
    is_whole = state.last is None and target.max_records is None
    if not day or target.write.replaces_by_batch or new.every is None or is_whole:
        return new
    days = days_in(new.rows.where(is_good()), day)
    of_days = unseen(new.every.where(is_of_days(day, days)), [new.rows])
    failing = [r for r in target.rules if isinstance(r, RowRule) and r.severity == "fail"]
    if failing:
        of_days = frames.cache(of_days)
        require_passed(target.name, judge_target(count(of_days, failing, None), failing, {}))
    bad = unseen(of_days.where(~is_good()), state.quarantined(frames.session))
    more = frames.cache(bad.select(new.rows.columns))
    count_of_bad = more.count()
    if not count_of_bad:
        return new
    note = f"{counted(count_of_bad, 'other row')} of the days that were read again failed a rule"
    return replace(
        new,
        rows=new.rows.unionByName(more),
        read=new.read + count_of_bad,
        quarantined=new.quarantined + count_of_bad,
        notes=(*new.notes, note),
    )
