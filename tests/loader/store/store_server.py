# SPDX-License-Identifier: MIT
"""Serve S3 and plain files for tests, with faults.

It serves GET of objects with ranges, ListObjectsV2, and the endpoints that credentials come from. It verifies
signatures with its own implementation of Signature Version 4. `Store.fault` may answer any request in another way.
"""

import hashlib
import hmac
import http.server
import os
import random
import re
import socket
import socketserver
import struct
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

KEY_ID, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-test-1"


def quote(text, safe="-._~"):
    return urllib.parse.quote(text, safe=safe)


def sign(request, secret):
    """Return the Authorization header of a request, and the one that it must have."""
    given = request.headers["Authorization"]
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
                         r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})", given)
    if not match:
        return given, "malformed"
    key_id, day, region, service, names, _ = match.groups()
    path, _, query = request.path.partition("?")
    pairs = sorted((quote(k), quote(v)) for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([
        request.command, quote(urllib.parse.unquote(path), "/-._~"), "&".join(f"{k}={v}" for k, v in pairs),
        "".join(f"{n}:{' '.join(request.headers[n].split())}\n" for n in names.split(";")), names,
        request.headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], f"{day}/{region}/{service}/aws4_request",
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return given, (f"AWS4-HMAC-SHA256 Credential={key_id}/{day}/{region}/{service}/aws4_request, "
                   f"SignedHeaders={names}, Signature={signature}")


class Answer(Exception):
    """Raised to answer a request with an error document."""

    def __init__(self, status, code, headers=None, extra=""):
        super().__init__(code)
        self.status, self.code, self.headers, self.extra = status, code, headers or {}, extra


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body are sent in one segment.
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    def send(self, status, body=b"", headers=None, length=None):
        """Send an answer; `length` is a wrong Content-Length."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def error(self, a):
        body = (f"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{a.code}</Code><Message>test</Message>"
                f"{a.extra}<RequestId>REQ{self.server.store.count}</RequestId></Error>").encode()
        self.send(a.status, body, a.headers)

    def cut(self, reset=False):
        """Close the connection at once, whatever it is doing."""
        try:
            self.wfile.flush()
            if reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR) if not reset else self.connection.close()
        except OSError:
            pass
        self.close_connection = True

    def do_PUT(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def do_GET(self):
        store = self.server.store
        if self.path.startswith("http://"):  # this server is used as a proxy
            store.proxied += 1
            self.path = "/" + self.path.split("/", 3)[3]
        with store.lock:
            store.count += 1
            store.log.append((self.command, self.path, self.headers.get("Range")))
            store.in_flight += 1
            store.most_in_flight = max(store.most_in_flight, store.in_flight)
        try:
            if store.latency:
                time.sleep(store.latency)
            self.answer(store)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with store.lock:
                store.in_flight -= 1

    def answer(self, store):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        try:
            if path in store.routes:
                store.routes[path](self)
                return
            if store.fault and store.fault(self, path):
                return
            store.check(self)
            query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2], keep_blank_values=True))
            if self.command == "PUT":
                if hashlib.sha256(self.body).hexdigest() != self.headers["x-amz-content-sha256"]:
                    raise Answer(400, "XAmzContentSHA256Mismatch")
                store.put(path, self.body)
                self.send(200)
            elif "list-type" in query:
                self.send(200, store.list(path.strip("/"), query).encode(), {"Content-Type": "application/xml"})
            else:
                self.send(*store.get(path, self.headers.get("Range"), self.headers.get("If-Match")))
        except Answer as a:
            self.error(a)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


class Store:
    """Objects in memory: {"/bucket/key": bytes}."""

    def __init__(self, context=None, host="127.0.0.1"):
        self.objects, self.etags, self.routes = {}, {}, {}
        self.fault, self.signed, self.secret, self.token, self.page = None, True, SECRET, None, 1000
        self.may_list, self.latency = True, 0
        self.lock, self.log = threading.Lock(), []
        self.count = self.faults = self.proxied = self.in_flight = self.most_in_flight = 0
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.store = self
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if context else 'http'}://{host}:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def put(self, path, content):
        self.objects[path] = content
        self.etags[path] = f'"{hashlib.md5(content).hexdigest()}"'

    def put_folder(self, prefix, folder):
        """Store the files below a folder, except those that are too large for memory."""
        for at, _, names in os.walk(folder):
            for path in (os.path.join(at, name) for name in names):
                if not os.path.isfile(path) or os.path.getsize(path) > 1 << 30:
                    continue
                with open(path, "rb") as f:
                    self.put(f"{prefix}/{os.path.relpath(path, folder)}", f.read())

    def check(self, request):
        if not self.signed:
            return
        if "Authorization" not in request.headers:
            raise Answer(403, "AccessDenied")
        if self.token is not None and request.headers.get("x-amz-security-token") != self.token:
            raise Answer(400, "ExpiredToken")
        given, right = sign(request, self.secret)
        if given != right:
            raise Answer(403, "SignatureDoesNotMatch")

    def list(self, bucket, query):
        if not self.may_list:
            raise Answer(403, "AccessDenied")
        start = f"/{bucket}/{query.get('prefix', '')}"
        names = sorted(n for n in self.objects if n.startswith(start))
        if not any(n.startswith(f"/{bucket}/") for n in self.objects):
            raise Answer(404, "NoSuchBucket")
        after = query.get("continuation-token")
        rest = [n for n in names if after is None or n > after]
        page = rest[:self.page]
        more = len(rest) > len(page)
        entries = "".join(
            f"<Contents><Key>{escape(n[len(bucket) + 2:])}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f"<ETag>{escape(self.etags[n], {chr(34): '&quot;'})}</ETag><Size>{len(self.objects[n])}</Size></Contents>"
            for n in page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return (f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/'
                f'2006-03-01/"><Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>{entries}{token}'
                f'</ListBucketResult>')

    def get(self, path, wanted, match=None):
        """Return the correct answer: (status, body, headers)."""
        if path not in self.objects:
            raise Answer(404, "NoSuchKey")
        content, etag = self.objects[path], self.etags[path]
        headers = {"ETag": etag, "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        if match is not None and match != etag:
            raise Answer(412, "PreconditionFailed")
        if wanted is None:
            return 200, content, headers
        first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", wanted).groups())
        if first >= len(content):
            raise Answer(416, "InvalidRange", {"Content-Range": f"bytes */{len(content)}"})
        last = min(last, len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return 206, content[first:last + 1], headers


class Faults:
    """Causes random faults in a share of all answers to requests for objects and listings."""

    KINDS = ("error", "slow", "busy", "drop", "reset", "truncate", "short", "range", "length", "no_range", "whole",
             "stall", "html", "garbage")

    def __init__(self, store, seed, share, kinds=KINDS, stall_s=0.6):
        self.store, self.random, self.share = store, random.Random(seed), share
        self.kinds, self.stall_s, self.counts = kinds, stall_s, {}

    def __call__(self, request, path):
        with self.store.lock:
            if self.random.random() >= self.share:
                return False
            kind = self.random.choice(self.kinds)
            cut = self.random.random()
            self.store.faults += 1
            self.counts[kind] = self.counts.get(kind, 0) + 1
        return getattr(self, kind)(request, path, cut)

    def right(self, request, path):
        self.store.check(request)
        query = request.path.partition("?")[2]
        if "list-type" in query:
            pairs = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            return 200, self.store.list(path.strip("/"), pairs).encode(), {}
        return self.store.get(path, request.headers.get("Range"))

    def error(self, request, path, cut):
        request.error(Answer(500, "InternalError"))
        return True

    def slow(self, request, path, cut):
        request.error(Answer(503, "SlowDown"))
        return True

    def busy(self, request, path, cut):
        request.error(Answer(429, "TooManyRequests", {"Retry-After": "0"}))
        return True

    def drop(self, request, path, cut):
        request.cut()
        return True

    def reset(self, request, path, cut):
        request.cut(reset=True)
        return True

    def truncate(self, request, path, cut):
        """End the connection within the body."""
        status, body, headers = self.right(request, path)
        request.send(status, body[:int(len(body) * cut)], headers, length=len(body))
        request.cut()
        return True

    def short(self, request, path, cut):
        """Send a body shorter than the range, with its own length."""
        status, body, headers = self.right(request, path)
        if status != 206 or len(body) < 2:
            return False
        request.send(status, body[:int((len(body) - 1) * cut)], headers)
        return True

    def range(self, request, path, cut):
        """Send another range of the same length, and say which one it is."""
        status, body, headers = self.right(request, path)
        whole = self.store.objects.get(path, b"")
        if status != 206 or len(body) == len(whole):
            return False
        first = int(re.match(r"bytes (\d+)", headers["Content-Range"]).group(1))
        other = int((len(whole) - len(body)) * cut)
        if other == first:
            return False
        headers["Content-Range"] = f"bytes {other}-{other + len(body) - 1}/{len(whole)}"
        request.send(status, whole[other:other + len(body)], headers)
        return True

    def length(self, request, path, cut):
        """Send more bytes than were requested."""
        status, body, headers = self.right(request, path)
        if status != 206:
            return False
        request.send(status, body + b"x" * 100, headers)
        return True

    def no_range(self, request, path, cut):
        """Send 206 without Content-Range."""
        status, body, headers = self.right(request, path)
        if status != 206:
            return False
        del headers["Content-Range"]
        request.send(status, body[::-1], headers)
        return True

    def whole(self, request, path, cut):
        """Send 200 with the whole object."""
        status, _, headers = self.right(request, path)
        if status != 206:
            return False
        del headers["Content-Range"]
        request.send(200, self.store.objects[path], headers)
        return True

    def stall(self, request, path, cut):
        status, body, headers = self.right(request, path)
        request.send(status, body[:len(body) // 2], headers, length=len(body))
        request.wfile.flush()
        time.sleep(self.stall_s)
        request.cut()
        return True

    def html(self, request, path, cut):
        """Send what a proxy sends."""
        request.send(502, b"<html><body>Bad Gateway</body></html>", {"Content-Type": "text/html"})
        return True

    def garbage(self, request, path, cut):
        request.wfile.write(b"\x00\xff not HTTP at all \r\n\r\n")
        request.cut()
        return True
