"""A server with the shape of the Hugging Face hub's file API: HEAD tells commit and checksum, GET sends the bytes.

Large files are redirected, as the hub redirects them to its storage, with the checksum of their content in
``X-Linked-Etag``; small ones have the name that git gives their content as ``ETag``.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 2000


class Hub:
    """What lies on the server: path below a repository to content, and requests so far."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.sent: dict[str, bytes] = {}  # what is sent in place of the content
        self.requests: list[str] = []
        self.url = ""

    def checksum(self, path: str) -> str:
        content = self.files[path]
        if len(content) >= LARGE:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            """Say nothing."""

        def do_HEAD(self):
            self._answer(with_body=False)

        def do_GET(self):
            self._answer(with_body=True)

        def _answer(self, *, with_body):
            hub.requests.append(f"{self.command} {self.path}")
            stored = self.path.startswith("/storage/")
            path = self.path.removeprefix("/storage")
            repo, _, rest = path.partition("/resolve/")
            revision, _, name = rest.partition("/")
            path = f"{repo}/{name}"
            if path not in hub.files or revision not in ("main", "v1", COMMIT):
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = hub.sent.get(path, hub.files[path])
            is_large = len(hub.files[path]) >= LARGE
            redirected = is_large and not stored
            self.send_response(302 if redirected else 200)
            self.send_header("X-Repo-Commit", COMMIT)
            if is_large:
                self.send_header("X-Linked-Etag", f'"{hub.checksum(path)}"')
                self.send_header("X-Linked-Size", str(len(body)))
            self.send_header("ETag", f'"{hub.checksum(path)}"')
            if redirected:
                self.send_header("Location", f"{hub.url}/storage{self.path}")
            self.send_header("Content-Length", "0" if redirected else str(len(body)))
            self.end_headers()
            if with_body and not redirected:
                self.wfile.write(body)

    return Handler


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve on this machine while the block runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
