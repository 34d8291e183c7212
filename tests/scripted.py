"""A web server that answers as told, for those who ask: the agent and the client."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Scripted:
    """Answers request by request: (status, headers, body); None hangs up.

    A `Content-Length` of its own that is more than there is cuts the answer. `asked` is what came:
    method, path, headers; `bodies` what came with it.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                length = int(self.headers.get("Content-Length", 0))
                script.bodies.append(self.rfile.read(length))
                script.asked.append((self.command, self.path, dict(self.headers)))
                answer = script.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, body = answer
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class' names

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def scripts() -> Iterator[Any]:
    """Starts servers, and stops them at the end."""
    running: list[Scripted] = []

    def start(*answers: Any) -> Scripted:
        running.append(Scripted(*answers))
        return running[-1]

    try:
        yield start
    finally:
        for each in running:
            each.server.shutdown()
            each.server.server_close()
