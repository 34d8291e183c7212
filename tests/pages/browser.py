"""A tenant's browser, without a screen: cookies, forms with their tokens, redirects."""

import re
from random import randrange
from typing import Any

from django.test import Client

TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class Browser:
    """Asks as a browser does, each from a network of its own; `sign_in` pastes a key into the form."""

    def __init__(self) -> None:
        address = f"10.{randrange(256)}.{randrange(256)}.7"
        self.client = Client(
            enforce_csrf_checks=True, raise_request_exception=False, REMOTE_ADDR=address
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={n.replace("_", "-"): v for n, v in headers.items()})

    def text(self, path: str) -> str:
        """A page that is there, without the token that differs each time."""
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, answer.content[:500])
        return TOKEN.sub("", answer.content.decode())

    def post(self, path: str, form_on: str, **fields: Any) -> Any:
        """Send the form of a page."""
        token = TOKEN.search(self.get(form_on).content.decode())
        assert token is not None
        return self.client.post(path, {"csrfmiddlewaretoken": token[1], **fields})

    def sign_in(self, key: str | None, **fields: str) -> Any:
        return self.post("/sign-in/", "/sign-in/", key=key or "", **fields)


def browser_of(client: Any) -> Browser:
    """The browser of whoever holds the key of a caller of the API, signed in."""
    browser = Browser()
    answer = browser.sign_in(client.key)
    assert answer.status_code == 302, answer.content
    return browser


def page_waits(text: str) -> bool:
    """Return whether a page waits for a result, by a script and by a link for those without it."""
    waits = " data-waits>" in text
    assert ("live/live.js" in text) == waits
    assert ('href="">Look again</a>' in text) == waits
    assert "http-equiv" not in text
    return waits
