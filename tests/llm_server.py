"""An OpenAI-compatible chat server for tests, as a separate process that fails on request.

    python llm_server.py JOURNAL [PORT]

It prints its port. Every call is written to JOURNAL before anything else happens, so that its own count of calls
and tokens survives a kill; `POST /begin` clears it. `POST /script` sets what happens:
`{"replies": {PIECE: [REPLY, …]}, …}`; each call whose first question contains PIECE takes the next REPLY of the list.
It behaves as the servers it was compared with: it refuses a `response_format` that is not in `formats` or has a keyword
of `unsupported`, puts plain text around JSON where `fenced` is set and no format is asked for, and cuts an answer at
`max_tokens`; `envelope` is sent as it is, whatever was asked. With `streams` it streams where a call asks for it, and a
parameter in `unknown` is refused. Its tokenizer is the worst possible one: a byte is a token.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Service(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, journal: Path, port: int) -> None:
        self.journal = journal
        self.lock = threading.Lock()
        self.script: dict[str, Any] = {}
        self.chapter = 0  # of the journal; a late answer to a call of an earlier one is not recorded
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that has left is not an error
            super().handle_error(request, client_address)

    def note(self, chapter: int, **entry: Any) -> None:
        with self.lock:
            if chapter == self.chapter:
                with self.journal.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")

    def begin(self) -> None:
        with self.lock:
            self.chapter += 1
            self.journal.write_text("", encoding="utf-8")

    def next_reply(self, question: str) -> dict[str, Any]:
        with self.lock:
            for piece, replies in self.script.get("replies", {}).items():
                if piece in question and replies:
                    reply: dict[str, Any] = replies.pop(0)
                    return reply
        return {}


class Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if not sent:
            raise ConnectionAbortedError("the client was killed while it sent")
        body = json.loads(sent)
        chapter = self.server.chapter
        if self.path == "/begin":
            self.server.begin()
            self.reply(200, {})
            return
        if self.path == "/script":
            self.server.script = body
            self.reply(200, {})
            return
        messages = body["messages"]
        question = next(message["content"] for message in messages if message["role"] == "user")
        digest = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
        format_type = body.get("response_format", {"type": "text"})["type"]
        call = {
            "digest": digest,
            "question": question,
            "format": format_type,
            "turns": len(messages),
            "time": time.time(),
        }
        self.server.note(chapter, event="call", **call)
        script = self.server.script
        if format_type not in script.get("formats", ["json_schema", "json_object", "text"]):
            self.refuse(400, f"response_format of type {format_type} is not supported")
            return
        wanted = json.dumps(body.get("response_format", {}))
        keywords = [word for word in script.get("unsupported", []) if f'"{word}"' in wanted]
        if keywords:  # in the words of OpenAI
            self.refuse(400, f"Invalid schema for response_format: '{keywords[0]}' is not permitted")
            return
        limit = script.get("limit", "max_tokens")
        if limit not in body:
            self.refuse(400, f"Unsupported parameter: 'max_tokens'. Use '{limit}' instead.")
            return
        refused = [word for word in script.get("unknown", []) if word in body]
        if refused:
            self.refuse(400, f"Unknown parameter: '{refused[0]}'.")
            return
        time.sleep(script.get("seconds", 0))
        reply = self.server.next_reply(question)
        while reply.get("after", 0) > self.server.journal.read_text(encoding="utf-8").count("\n"):  # lines
            time.sleep(0.01)
        time.sleep(reply.get("hang", 0))
        if "status" in reply:
            self.refuse(reply["status"], reply.get("message", "scripted failure"), reply.get("headers", {}))
            return
        if reply.get("reset"):
            self.close_connection = True
            return
        envelope = reply.get("envelope", script.get("envelope"))
        if envelope is not None:
            self.reply(200, envelope)
            return
        usual = json.dumps({"echo": question}) if script.get("json", True) else question
        text = reply.get("text", script.get("answer", usual))
        if script.get("fenced") and format_type == "text":  # as models write JSON that no grammar holds them to
            text = f"Here is the JSON:\n```json\n{text}\n```\nLet me know if you need anything else."
        encoded = text.encode()[: body[limit]]
        tokens_in = 100 + sum(len(message["content"].encode()) for message in messages)
        tokens_in += len(json.dumps(body.get("response_format", "")))
        self.server.note(chapter, event="answer", digest=digest, question=question, tokens=tokens_in + len(encoded))
        finish = "length" if len(encoded) < len(text.encode()) else "stop"
        answer: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": encoded.decode("utf-8", "ignore")},
                }
            ],
        }
        if body.get("stream") and script.get("streams"):
            usage = {"prompt_tokens": tokens_in, "completion_tokens": len(encoded)}
            wants_usage = body.get("stream_options", {}).get("include_usage", False)
            self.stream(encoded.decode("utf-8", "ignore"), finish, usage if wants_usage else None, reply)
            return
        if not reply.get("silent"):
            answer["usage"] = {"prompt_tokens": tokens_in, "completion_tokens": len(encoded)}
        self.reply(200, answer, cut=reply.get("cut", 0), dribble=reply.get("dribble", 0.0))

    def stream(self, text: str, finish: str, usage: dict[str, int] | None, reply: dict[str, Any]) -> None:
        """The text in pieces of `piece` characters, a `pause` between them; `breaks` after so many of them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        size = reply.get("piece", 7)
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
        events = events[: reply.get("breaks", len(events))]
        if "breaks" not in reply:
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            events += [{"choices": [], "usage": usage}] if usage else []
        for event in events:
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(reply.get("pause", 0))
        if "breaks" not in reply:
            self.wfile.write(b"data: [DONE]\n\n")

    def refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        self.reply(status, {"error": {"message": message}}, headers)

    def reply(
        self,
        status: int,
        value: dict[str, Any],
        headers: dict[str, str] | None = None,
        *,
        cut: int = 0,
        dribble: float = 0.0,
    ) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        if dribble:
            for index in range(len(body)):
                self.wfile.write(body[index : index + 1])
                time.sleep(dribble)
        else:
            self.wfile.write(body[: len(body) - cut])
        self.close_connection = self.close_connection or bool(cut)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server wants
        pass


class Server:
    """The server process, as a test uses it."""

    def __init__(self, journal: Path, port: int = 0) -> None:
        self._journal = journal
        command = [sys.executable, __file__, str(journal), str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def script(self, **script: Any) -> None:
        """What happens from now on; clears the journal."""
        self._post("begin", {})
        self.change(**script)

    def change(self, **script: Any) -> None:
        self._post("script", script)

    def _post(self, path: str, body: dict[str, Any]) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", json.dumps(body).encode()):
            pass

    def calls(self) -> list[dict[str, Any]]:
        return [entry for entry in self._entries() if entry["event"] == "call"]

    def answers(self) -> list[dict[str, Any]]:
        return [entry for entry in self._entries() if entry["event"] == "answer"]

    def _entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text(encoding="utf-8").splitlines()]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


if __name__ == "__main__":
    service = Service(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sys.stdout.write(f"{service.server_address[1]}\n")
    sys.stdout.flush()
    service.serve_forever()
