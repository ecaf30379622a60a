"""What a feed says is shown as text in Dagster's UI, which reads descriptions as Markdown."""

from __future__ import annotations

from datetime import date

import pytest

from incremental_assets.lakehouse import DayResult, TableLoadResult
from incremental_assets.orchestration.events import evaluations
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.quality.judge import RuleResult
from incremental_assets_tests.alerts.test_conditions import JUDGED

DAY = date(2017, 1, 5)
HOSTILE = "![x](http://evil/x.png) <img src=y> [z](http://evil) `a` a_b"
SHOWN = r"\!\[x\](http\://evil/x.png) \<img src=y\> \[z\](http\://evil) \`a\` a_b"


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(
            DayResult(
                DAY,
                "held",
                checks={
                    "quarantined_share": RuleResult(
                        "quarantined_share", "fail", False, HOSTILE, 1.0, 0.0
                    )
                },
            ),
            id="held",
        ),
        pytest.param(DayResult(DAY, "refused", HOSTILE), id="refused"),
    ],
)
def test_no_word_of_a_feed_becomes_a_link_or_a_picture(result: DayResult) -> None:
    (check,) = evaluations(
        ALONE.key(JUDGED), JUDGED, TableLoadResult(JUDGED.name, {DAY: result}, 1.0)
    )

    assert check.description == f"{DAY}: {SHOWN}"
    assert check.metadata["found"].value == HOSTILE
