"""A post is taken, or it is said that it was not, without saying where it went."""

from __future__ import annotations

import traceback

import pytest

from incremental_assets.alerts.webhook import post
from incremental_assets.errors import WebhookError
from incremental_assets.spark.server import free_port
from incremental_assets_tests.alerts.receiver import TOKEN, Receiver


def refused(url: str, seconds: float = 5.0) -> str:
    with pytest.raises(WebhookError) as raised:
        post(url, {"text": "hello"}, seconds)
    assert TOKEN not in "".join(traceback.format_exception(raised.value))
    return str(raised.value)


def test_a_message_arrives_as_json(hook: Receiver) -> None:
    post(hook.url, {"text": "déjà vu", "count": 1})

    assert hook.taken == [{"text": "déjà vu", "count": 1}]
    assert hook.asked == [f"POST /hook/{TOKEN} application/json"]


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_what_the_other_side_refuses_was_not_taken(hook: Receiver, status: int) -> None:
    hook.answer = status

    assert refused(hook.url) == f"The webhook answered {status}."


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(hook: Receiver, status: int) -> None:
    hook.answer, hook.elsewhere = status, hook.url.replace("/hook/", "/elsewhere/")

    assert refused(hook.url) == f"The webhook answered {status}."
    assert len(hook.asked) == 1


def test_a_webhook_that_hangs_is_left(hook: Receiver) -> None:
    hook.answer = 0

    assert refused(hook.url, seconds=0.2) == "The webhook does not answer (TimeoutError)."


def test_a_webhook_that_is_not_there_or_talks_no_http_is_reported(hook: Receiver) -> None:
    nobody = f"http://127.0.0.1:{free_port()}/{TOKEN}"

    assert refused(nobody) == "The webhook does not answer (ConnectionRefusedError)."
    assert "does not answer" in refused(hook.url.replace("http:", "https:"))
    assert "does not answer" in refused(f"http://nobody.invalid/{TOKEN}")
