"""A web service for tests: writes each request as a file of JSON, and answers as the text of the request asks.

[once N] is answered with the status N for the first time, [always N] each time. [wait S] is answered with 429 and Retry-After: S
for the first time, [redirect] with the address of another path. [lost] is written, and gets no answer for the first time. [silent]
gets none until the client hangs up, for the first time, and [endless] one without an end. All other requests are answered with 200.
"""
import argparse
import http.server
import itertools
import json
import os
import re
import ssl
import threading
import time

numbers = itertools.count(1)
seen = set()
lock = threading.Lock()


def first(request):
    with lock:
        is_new = request not in seen
        seen.add(request)
        return is_new


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        mark = re.search(r"\[(once|always|wait|redirect|lost|silent|endless) ?(\d*)\]", body)
        kind, number = mark.groups() if mark else ("", "")
        is_new = first(self.headers["Idempotency-Key"])
        status, fields = 200, {}
        if kind == "always" or kind == "once" and is_new:
            status = int(number)
        elif kind == "wait" and is_new:
            status, fields = 429, {"Retry-After": number}
        elif kind == "redirect":
            status, fields = 302, {"Location": "/elsewhere"}
        self.write(body, status)
        if kind == "lost" and is_new:
            self.close_connection = True
            return
        if kind == "silent" and is_new:
            self.rfile.read(1)
            self.close_connection = True
            return
        if kind == "endless":
            self.send_response(status)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            while True:
                self.wfile.write(b"x" * 65536)
        answer = b"ok" if status == 200 else b"the service says no"
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_HEAD = do_POST

    def write(self, body, status):
        told = {
            "method": self.command,
            "path": self.path,
            "headers": [[name.lower(), value] for name, value in self.headers.items()],
            "body": body,
            "status": status,
            "from": self.client_address[1],
            "milliseconds": time.monotonic_ns() // 1_000_000,
        }
        with lock:
            path = os.path.join(self.server.out, f"{self.server.start}-{next(numbers):04}.json")
            with open(path + ".new", "w") as file:
                json.dump(told, file)
            os.rename(path + ".new", path)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    args = parser.parse_args()
    server = Server(("127.0.0.1", args.port), Handler)
    # Files of a later process sort behind those of an earlier one.
    server.out, server.start = args.out, f"{time.monotonic_ns():020}"
    if args.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(args.certificate, args.key)
        # The thread of the connection makes the handshake, so that none waits for another one.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    server.serve_forever()


main()
