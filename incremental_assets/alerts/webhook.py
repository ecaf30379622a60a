"""Posting a message to a webhook, without ever showing where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from incremental_assets.errors import WebhookError

SECONDS = 5.0


class _StayHere(HTTPRedirectHandler):
    """Goes nowhere else: the message and the token are for the address that was given."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def post(url: str, message: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Post a message as JSON; back once it is answered with 2xx.

    Raises WebhookError if it is refused, redirected, or not answered: `seconds` are allowed for
    each step of the exchange. What is raised names neither the address nor the response.
    """
    request = Request(  # noqa: S310 - the settings let http and https through, and nothing else
        url,
        json.dumps(message).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "incremental-assets"},
    )
    try:
        with build_opener(_StayHere).open(request, timeout=seconds):
            return
    except HTTPError as refused:
        refused.close()
        raise WebhookError(f"The webhook answered {refused.code}.") from None
    except URLError as error:
        why = error.reason if isinstance(error.reason, Exception) else error
    except (OSError, HTTPException) as error:
        why = error
    raise WebhookError(f"The webhook does not answer ({type(why).__name__}).") from None
