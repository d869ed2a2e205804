"""A small OpenAI-compatible chat server over a GGUF file or a Hugging Face folder, to measure verbs that ask a model.

    python bench/llm_server.py MODEL --port 8193                      # transformers, on a GPU where there is one
    python bench/llm_server.py MODEL --port 8193 --engine openvino    # two cores: openvino-genai with its batching

Requests that arrive together are answered as one batch, greedily. `json_object` and `json_schema` are enforced by a
grammar: with transformers the package llguidance must be there, else `json_schema` is refused with status 400, as many
servers do. A GGUF file needs the package gguf. Not for production: no authentication, no streaming, no sampling.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple


class Call(NamedTuple):
    messages: list[dict[str, str]]
    limit: int  # tokens of the answer
    schema: dict[str, Any] | None  # None: plain text
    reply: Future[Reply]


class Reply(NamedTuple):
    text: str
    tokens_in: int
    tokens_out: int
    cut: bool


Calls = queue.Queue[Call]


class Engine(NamedTuple):
    work: Callable[[Calls], None]  # answers the calls of a queue, for ever
    has_grammar: bool


# ---------------------------------------------------------------- engines


def transformers_engine(path: Path, most: int, _threads: int) -> Engine:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList

    folder, source = (str(path.parent), {"gguf_file": path.name}) if path.is_file() else (str(path), {})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left", **source)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **source)
    model = model.to(device).eval()
    model.generation_config.update(temperature=None, top_p=None, top_k=None, repetition_penalty=1.0)
    # the file of an instruct model may name the end of the text only, while an answer ends with the end of the turn
    named = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|im_end|>"), model.config.eos_token_id}
    ends = sorted(end for end in named if isinstance(end, int))
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
    try:
        import llguidance
        from llguidance.hf import from_tokenizer
        from llguidance.torch import allocate_token_bitmask, fill_next_token_bitmask

        vocabulary = from_tokenizer(tokenizer, n_vocab=model.config.vocab_size, eos_token=ends)
    except ImportError:
        vocabulary = None

    def matcher_of(schema: dict[str, Any]) -> Any:
        matcher = llguidance.LLMatcher
        # small models would write blanks between two tokens for ever
        overrides = {"whitespace_flexible": False}
        return matcher(vocabulary, matcher.grammar_from_json_schema(json.dumps(schema), overrides=overrides))

    class Grammar(LogitsProcessor):
        """Masks the tokens that would leave the schema of their row."""

        def __init__(self, calls: Sequence[Call], start: int) -> None:
            self.matchers = [None if call.schema is None else matcher_of(call.schema) for call in calls]
            self.start = start
            self.bits = torch.arange(32, dtype=torch.int32, device=device)

        def __call__(self, tokens: Any, scores: Any) -> Any:
            mask = allocate_token_bitmask(len(tokens), scores.shape[1])
            for row, matcher in enumerate(self.matchers):
                if matcher is not None and tokens.shape[1] > self.start and not matcher.is_stopped():
                    matcher.consume_token(int(tokens[row, -1]))
                if matcher is not None and not matcher.is_stopped():
                    fill_next_token_bitmask(matcher, mask, row)
            allowed = (mask.to(device)[:, :, None] >> self.bits & 1).reshape(len(tokens), -1)[:, : scores.shape[1]] == 1
            for row, matcher in enumerate(self.matchers):
                if matcher is not None and matcher.is_stopped():  # the value is complete
                    allowed[row] = False
                    allowed[row, ends[0]] = True
            return scores.masked_fill(~allowed, float("-inf"))

    def complete(calls: Sequence[Call]) -> list[Reply]:
        texts = [
            tokenizer.apply_chat_template(call.messages, tokenize=False, add_generation_prompt=True) for call in calls
        ]
        batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
        start = batch["input_ids"].shape[1]
        with torch.inference_mode():
            output = model.generate(
                **batch,
                max_new_tokens=max(call.limit for call in calls),
                do_sample=False,
                eos_token_id=ends,
                pad_token_id=padding,
                logits_processor=LogitsProcessorList([Grammar(calls, start)] if vocabulary is not None else []),
            )
        replies = []
        for call, sent, row in zip(
            calls, batch["attention_mask"].sum(1).tolist(), output[:, start:].tolist(), strict=True
        ):
            end = next((n for n, token in enumerate(row) if token in ends), len(row))
            written = row[: min(end, call.limit)]
            replies.append(
                Reply(
                    tokenizer.decode(written, skip_special_tokens=True),
                    sent,
                    len(written),
                    end >= min(call.limit, len(row)),
                )
            )
        return replies

    def work(waiting: Calls) -> None:
        while True:
            calls = [waiting.get()]
            time.sleep(0.1)  # what is sent together is answered together
            while len(calls) < most and not waiting.empty():
                calls.append(waiting.get())
            begin = time.perf_counter()
            try:
                replies = complete(calls)
            except Exception as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                for call in calls:
                    call.reply.set_exception(error)
                continue
            for call, reply in zip(calls, replies, strict=True):
                call.reply.set_result(reply)
            seconds, tokens = time.perf_counter() - begin, sum(reply.tokens_out for reply in replies)
            sys.stderr.write(f"{len(calls)} answers, {tokens} tokens in {seconds:.1f} s\n")

    return Engine(work, vocabulary is not None)


def openvino_engine(path: Path, most: int, threads: int) -> Engine:
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.cache_size, scheduler.enable_prefix_caching = 1, True  # GB
    pipeline = genai.ContinuousBatchingPipeline(str(path), scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    tokenizer = pipeline.get_tokenizer()

    def start(number: int, call: Call) -> tuple[Call, int, Any]:
        config = genai.GenerationConfig()
        config.max_new_tokens, config.do_sample, config.apply_chat_template = call.limit, False, False
        if call.schema is not None:
            config.structured_output_config = genai.StructuredOutputConfig(json_schema=json.dumps(call.schema))
        text = tokenizer.apply_chat_template(call.messages, add_generation_prompt=True)
        tokens = tokenizer.encode(text).input_ids
        return call, tokens.shape[1], pipeline.add_request(number, tokens, config)

    def work(waiting: Calls) -> None:
        running: list[tuple[Call, int, Any]] = []
        number, begin = 0, time.perf_counter()
        while True:
            while not running or (len(running) < most and not waiting.empty()):
                number += 1
                running.append(start(number, waiting.get()))
            pipeline.step()
            for item in list(running):
                call, sent, handle = item
                if handle.get_status() == genai.GenerationStatus.RUNNING:
                    continue
                running.remove(item)
                [output] = handle.read_all()
                cut = output.finish_reason == genai.GenerationFinishReason.LENGTH
                call.reply.set_result(
                    Reply(tokenizer.decode(output.generated_ids), sent, len(output.generated_ids), cut)
                )
                seconds = time.perf_counter() - begin
                sys.stderr.write(
                    f"answer {number}: {len(output.generated_ids)} tokens, {seconds:.0f} s after the start\n"
                )

    return Engine(work, has_grammar=True)


ENGINES = {"transformers": transformers_engine, "openvino": openvino_engine}


# ---------------------------------------------------------------- server


class Service(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, engine: Engine, port: int) -> None:
        self.engine = engine
        self.waiting: Calls = queue.Queue()
        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=engine.work, args=(self.waiting,), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send(200, {"object": "list", "data": [{"id": "model", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wanted = body.get("response_format") or {"type": "text"}
        schema: dict[str, Any] | None = None
        if wanted["type"] in ("json_schema", "json_object") and not self.server.engine.has_grammar:
            self.send(400, {"error": {"message": f"response_format {wanted['type']!r} is not supported"}})
            return
        if wanted["type"] == "json_schema":
            schema = wanted["json_schema"]["schema"]
        elif wanted["type"] == "json_object":
            schema = {"type": "object"}
        reply: Future[Reply] = Future()
        self.server.waiting.put(Call(body["messages"], int(body.get("max_tokens", 1024)), schema, reply))
        try:
            text, tokens_in, tokens_out, cut = reply.result()
        except Exception as error:
            self.send(500, {"error": {"message": f"{type(error).__name__}: {error}"}})
            return
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "length" if cut else "stop"}
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
        self.send(200, {"object": "chat.completion", "model": body.get("model"), "choices": [choice], "usage": usage})

    def send(self, status: int, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a GGUF file or a model folder")
    parser.add_argument("--port", type=int, default=8193)
    parser.add_argument("--batch", type=int, default=64, help="most requests answered at once")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="transformers")
    parser.add_argument("--threads", type=int, default=2, help="of the engine openvino")
    arguments = parser.parse_args()
    engine = ENGINES[arguments.engine](arguments.model, arguments.batch, arguments.threads)
    service = Service(engine, arguments.port)
    sys.stderr.write(f"serving {arguments.model.name} at http://127.0.0.1:{arguments.port}/v1\n")
    service.serve_forever()
