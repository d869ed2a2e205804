"""The chat client against a real server process that fails on request, and JSON full of LaTeX."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm_server import Server
from tests.make import wait_until

from lemmata.core.config import build
from lemmata.core.errors import ConfigError, InputError, LemmataError
from lemmata.llm.answers import fit, read_answer, read_json, to_json_text
from lemmata.llm.chat import Answer, Chat, Request
from lemmata.llm.endpoint import Budget, EndpointOptions, Limits, Spent

SCHEMA = {
    "type": "object",
    "properties": {"echo": {"type": "string"}},
    "required": ["echo"],
    "additionalProperties": False,
}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


OPENED: list[Chat] = []


@pytest.fixture(autouse=True)
def close_chats() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def open_chat(server: Server, cache: Path, **options: Any) -> Chat:
    back_off, retries = options.pop("back_off", 0.01), options.pop("retries", 3)
    settings: dict[str, Any] = {"model": "tiny", "timeout": 120.0, **options}
    OPENED.append(Chat(EndpointOptions(server.url, **settings), cache, retries=retries, back_off=back_off))
    return OPENED[-1]


def rows(cache: Path, query: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(cache)) as connection:
        return connection.execute(query).fetchall()


def questions(*users: str, schema: dict[str, Any] | None = SCHEMA) -> list[Request]:
    return [Request("Be brief.", user, schema) for user in users]


def text_answer(value: Any) -> dict[str, Any]:
    return {"text": value if isinstance(value, str) else json.dumps(value)}


# ---------------------------------------------------------------- calls


def test_answers_keep_the_order_and_equal_questions_are_asked_once(server: Server, cache: Path) -> None:
    server.script(replies={"q0": [{"hang": 0.3}]})  # the first answer comes last
    chat = open_chat(server, cache)
    requests = questions(*[f"q{number}" for number in range(12)], "q3")
    answers = list(chat.run(requests))
    assert [answer.value["echo"] for answer in answers] == [request.user for request in requests]
    assert [answer.cached for answer in answers] == [False] * 12 + [True]
    assert len(server.calls()) == 12
    chat.close()
    again = list(open_chat(server, cache).run(requests))
    assert all(answer.cached for answer in again)
    assert [answer.value for answer in again] == [answer.value for answer in answers]
    assert len(server.calls()) == 12


def test_plain_text_is_returned_unchanged(server: Server, cache: Path) -> None:
    server.script(replies={"hello": [text_answer("no {JSON} here")], "nothing": [text_answer(" ")]})
    first, second = open_chat(server, cache).run(questions("hello", "nothing", schema=None))
    assert (first.text, first.value, first.error) == ("no {JSON} here", None, "")
    assert second.error == "tiny gave an empty answer"
    assert {call["format"] for call in server.calls()} == {"text"}


@pytest.mark.parametrize(
    "replies",
    [
        [{"status": 500}, {"status": 500}],
        [{"status": 502}, {"status": 503}, {"status": 429}],
        [{"reset": True}],
        [{"cut": 20}],
        [{"status": 429, "headers": {"Retry-After": "soon"}}],
    ],
)
def test_a_passing_failure_is_retried(server: Server, cache: Path, replies: list[dict[str, Any]]) -> None:
    server.script(replies={"q": [*replies]})
    [answer] = open_chat(server, cache).run(questions("q"))
    assert (answer.value, answer.error) == ({"echo": "q"}, "")
    assert len(server.calls()) == len(replies) + 1


def test_all_threads_wait_for_retry_after(server: Server, cache: Path) -> None:
    server.script(replies={"q0": [{"status": 429, "headers": {"Retry-After": "0.6"}}]}, seconds=0.05)
    answers = list(open_chat(server, cache, concurrency=2).run(questions(*[f"q{number}" for number in range(9)])))
    assert not any(answer.error for answer in answers)
    [refused_at] = rows(cache, "SELECT started + seconds FROM calls WHERE outcome <> ''")[0]
    starts = [start - refused_at for (start,) in rows(cache, "SELECT started FROM calls")]
    assert sum(0 < start < 0.5 for start in starts) <= 3  # as the other thread did not know yet; else all of them
    assert any(start >= 0.5 for start in starts)


def test_a_wait_of_an_hour_is_an_error(server: Server, cache: Path) -> None:
    server.script(replies={"q": [{"status": 429, "headers": {"Retry-After": "3600"}}]})
    [answer] = open_chat(server, cache).run(questions("q"))
    assert "asks to wait 3600 s" in answer.error


@pytest.mark.slow
def test_a_silent_and_a_slow_server_are_timed_out_and_retried(server: Server, cache: Path) -> None:
    server.script(replies={"hang": [{"hang": 60}], "drop": [{"dribble": 0.5}]})
    answers = list(open_chat(server, cache, timeout=2.0, retries=9).run(questions("hang", "drop by drop")))
    assert [answer.error for answer in answers] == ["", ""]
    assert min(Counter(call["question"] for call in server.calls()).values()) >= 2
    assert {*rows(cache, "SELECT outcome FROM calls WHERE outcome <> ''")} == {("no answer within 2 s",)}


def test_a_failure_is_an_answer_with_an_error_and_is_asked_again_in_the_next_run(server: Server, cache: Path) -> None:
    server.script(replies={"bad": [{"status": 500}] * 4})
    good, bad, last = open_chat(server, cache).run(questions("good", "bad", "last"))
    assert (good.error, last.error) == ("", "")
    assert bad.error == f"{server.url} failed 4 times for tiny: status 500, " + bad.error.partition("500, ")[2]
    assert bad.value is None
    assert [answer.error for answer in open_chat(server, cache).run(questions("good", "bad", "last"))] == [""] * 3
    assert Counter(call["question"] for call in server.calls()) == {"good": 1, "bad": 5, "last": 1}
    assert rows(cache, "SELECT COUNT(*) FROM calls WHERE outcome LIKE 'status 500%'") == [(4,)]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_denies_access_is_one_sentence_and_few_calls(server: Server, cache: Path, status: int) -> None:
    server.script(replies={"q": [{"status": status, "message": "no such thing"}] * 50})
    chat = open_chat(server, cache, concurrency=2)
    answers = list(chat.run(questions(*[f"q{number}" for number in range(50)])))
    assert {answer.error for answer in answers} == {chat.down}
    assert chat.down.startswith(f"{server.url} refused tiny: status {status}")
    assert "no such thing" in chat.down
    assert len(server.calls()) <= 2


@pytest.mark.parametrize("status", [400, 403])
def test_a_refused_request_does_not_stop_the_others(server: Server, cache: Path, status: int) -> None:
    server.script(replies={"rude": [{"status": status, "message": "the context is exceeded"}]})
    first, bad, last = open_chat(server, cache, concurrency=1).run(questions("kind", "rude", "polite"))
    assert f"{server.url} refused tiny: status {status}" in bad.error
    assert first.error == last.error == ""
    assert len(server.calls()) == 3


def test_an_endpoint_that_is_down_is_one_clear_error_at_once(cache: Path) -> None:
    chat = Chat(EndpointOptions("http://127.0.0.1:9/v1", "tiny"), cache)
    answers = list(chat.run(questions(*[f"q{number}" for number in range(100)])))
    assert chat.spent().calls <= EndpointOptions().concurrency  # one for each thread, and no retries
    assert {answer.error for answer in answers} == {chat.down}
    assert chat.down.startswith("http://127.0.0.1:9/v1 cannot be reached for tiny: ")
    chat.close()


def test_a_server_that_always_fails_is_given_up(server: Server, cache: Path) -> None:
    server.script(replies={"q": [{"status": 503}] * 500})
    chat = open_chat(server, cache, retries=1, concurrency=2)
    answers = list(chat.run(questions(*[f"q{number}" for number in range(60)])))
    assert all("failed 2 times" in answer.error for answer in answers)
    assert len(server.calls()) <= 2 * 10


def test_the_threads_end_when_the_caller_leaves_early(server: Server, cache: Path) -> None:
    server.script(seconds=0.05)
    for answer in open_chat(server, cache).run(questions(*[f"q{number}" for number in range(40)])):
        assert not answer.error
        break
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("chat")]
    assert len(server.calls()) < 30


def test_a_damaged_cache_is_an_error(server: Server, cache: Path) -> None:
    cache.write_bytes(b"not a database" * 100)
    with pytest.raises(InputError, match=r"cache\.sqlite"):
        open_chat(server, cache)


def test_a_missing_model_name_is_an_error(cache: Path) -> None:
    with pytest.raises(LemmataError, match="model"):
        Chat(EndpointOptions(), cache)


@pytest.mark.parametrize(("key", "value"), [("concurrency", 0), ("timeout", 0.0), ("answer_tokens", 0)])
def test_options_that_make_no_sense_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        build(EndpointOptions, {key: value}, "[llm]")


# ---------------------------------------------------------------- kills


CLIENT = """
import sys
from pathlib import Path
from lemmata.llm.chat import Chat, Request
from lemmata.llm.endpoint import EndpointOptions
url, cache, schema = sys.argv[1], Path(sys.argv[2]), {"type": "object"}
chat = Chat(EndpointOptions(url, "tiny", concurrency=2), cache)
for answer in chat.run(Request("", f"question {n}", schema) for n in range(40)):
    print(answer.error or answer.text, flush=True)
"""


def test_a_killed_client_resumes_from_the_cache(server: Server, cache: Path) -> None:
    server.script(replies={"question 30": [{"hang": 60}]})  # so that it cannot come to its end
    command = [sys.executable, "-c", CLIENT, server.url, str(cache)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    seen = [client.stdout.readline() for _ in range(10)]
    client.kill()
    client.wait()
    client.stdout.close()
    assert all("question" in line for line in seen)
    done = len(rows(cache, "SELECT key FROM cache"))
    assert 10 <= done < 40
    server.change()
    requests = [Request("", f"question {number}", {"type": "object"}) for number in range(40)]
    chat = open_chat(server, cache)
    answers = list(chat.run(requests))
    assert [answer.value["echo"] for answer in answers] == [request.user for request in requests]
    assert sum(answer.cached for answer in answers) == done
    asked = Counter(call["question"] for call in server.calls())
    assert all(asked[request.user] == 1 for request, answer in zip(requests, answers, strict=True) if answer.cached)
    assert sum(asked.values()) <= 42  # two calls were in flight at the kill
    assert 0 <= chat.spent().calls - len(server.calls()) <= 2  # a call is written down just before it is made


def test_a_killed_server_that_comes_back_costs_no_answer_twice(tmp_path: Path, cache: Path) -> None:
    first = Server(tmp_path / "journal")
    first.change(seconds=0.02)
    chat = open_chat(first, cache, retries=8, back_off=0.05, concurrency=3)
    requests = questions(*[f"question {number}" for number in range(40)])
    answers: list[Answer] = []
    second: Server | None = None
    for answer in chat.run(requests):
        answers.append(answer)
        if len(answers) == 10:
            first.kill()
            second = Server(tmp_path / "journal", first.port)
    assert second is not None
    assert [answer.value["echo"] for answer in answers] == [request.user for request in requests]
    received = Counter(entry["question"] for entry in second.answers())
    assert set(received) == {request.user for request in requests}
    assert sum(received.values()) - len(requests) <= 3  # calls in flight at the kill
    list(chat.run(requests))
    assert Counter(entry["question"] for entry in second.answers()) == received
    second.kill()


# ---------------------------------------------------------------- the budget


def test_a_budget_of_calls_counts_every_attempt(server: Server, cache: Path) -> None:
    server.script(replies={"q": [{"status": 500}] * 3})
    answers = list(open_chat(server, cache).run(questions(*[f"q{n}" for n in range(20)]), budget=Budget(calls=10)))
    assert len(server.calls()) == 10
    assert sum(answer.value is not None for answer in answers) == 7
    ended = ("budget", "; then the limit of 10 calls was reached")
    assert all(answer.error.endswith(ended) or answer.value for answer in answers)


def test_a_budget_of_tokens_and_cost_holds_in_the_servers_own_count(server: Server, cache: Path) -> None:
    requests = questions(*[f"q{number} {'x' * 37 * (number % 5)}" for number in range(60)])
    server.script(seconds=0.01)
    chat = open_chat(server, cache, price_in=1.0, price_out=4.0, answer_tokens=300)
    for budget, limit in [(Budget(tokens=9_000), 9_000), (Budget(cost=0.02), 20_000)]:
        before = sum(entry["tokens"] for entry in server.answers())
        answers = list(chat.run(requests, budget=budget))
        used = sum(entry["tokens"] for entry in server.answers()) - before
        assert 0.6 * limit < used <= limit if budget.tokens < math.inf else used <= limit
        assert {answer.error for answer in answers} == {"", "budget"}
        assert budget.spent.cost <= budget.cost
    assert chat.spent().tokens == sum(entry["tokens"] for entry in server.answers())


def test_tokens_that_the_server_does_not_report_count_as_the_worst_case(server: Server, cache: Path) -> None:
    server.script(replies={"q": [{"silent": True}] * 9})
    budget = Budget(tokens=3_000)
    list(
        open_chat(server, cache, answer_tokens=200).run(
            questions(*[f"q{number}" for number in range(9)]), budget=budget
        )
    )
    assert sum(entry["tokens"] for entry in server.answers()) <= budget.spent.tokens <= 3_000


def test_a_refusal_is_charged_with_what_the_server_reports(server: Server, cache: Path) -> None:
    refusal = {"message": {"role": "assistant", "content": None, "refusal": "I cannot"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 3}
    server.script(envelope={"choices": [refusal], "usage": usage})
    chat = open_chat(server, cache, price_in=1.0, price_out=10.0)
    budget = Budget()
    answers = list(chat.run(questions("a", "b", "c"), budget=budget))
    assert all("the model refused: I cannot" in answer.error for answer in answers)
    assert chat.spent()[:2] == (3, 39)
    assert chat.spent().cost == pytest.approx(3 * (10 + 30) / 1e6)
    assert budget.spent.tokens == 39
    server.script(envelope={"choices": [], "usage": usage})
    list(open_chat(server, cache, retries=0).run(questions("d")))
    assert chat.spent().tokens == 39 + 13
    server.script(envelope={"choices": [refusal], "usage": "none today"})  # nothing that can be read
    list(chat.run(questions("e")))
    assert chat.spent().tokens > 39 + 13 + EndpointOptions().answer_tokens


def test_a_request_that_failed_before_the_limit_says_why(server: Server, cache: Path) -> None:
    server.script(envelope={"choices": []})
    budget = Budget(calls=2)
    first, second = open_chat(server, cache, concurrency=1).run(questions("a", "b"), budget=budget)
    assert 'tiny: the answer does not follow the protocol: {"choices": []}' in first.error
    assert first.error.endswith("; then the limit of 2 calls was reached")
    assert second.error == "budget"
    assert budget.reached == "the limit of 2 calls was reached; raise it (--budget calls=…) to go on"


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (Limits(calls=1), "the limit of 1 call was reached; raise it (--budget calls=…) to go on"),
        (Limits(tokens=3_000_500), "the limit of 3,000,500 tokens was reached; raise it (--budget tokens=…) to go on"),
        (Limits(cost=0.25), "the limit of 0.25 for the cost was reached; raise it (--budget cost=…) to go on"),
        (Limits(), ""),
    ],
)
def test_a_budget_says_which_limit_was_reached(limits: Limits, sentence: str) -> None:
    budget = limits.budget(Spent(), Spent())
    assert budget.reached == ""
    for _ in range(2):
        if budget.reserve(Spent(1, 2_000_000, 0.2)):
            budget.settle(Spent(1, 2_000_000, 0.2), Spent(1, 1_500_000, 0.15))
    assert budget.reached == sentence


def test_a_call_that_timed_out_is_charged(server: Server, cache: Path) -> None:
    server.script(replies={"q": [{"hang": 8}] * 2})
    budget = Budget()
    [answer] = open_chat(server, cache, timeout=0.5, retries=1).run(questions("q"), budget=budget)
    assert "no answer within 0.5 s" in answer.error
    wait_until(lambda: len(server.answers()) >= 2)  # they come too late
    assert sum(entry["tokens"] for entry in server.answers()) <= budget.spent.tokens


def test_a_budget_of_seconds_ends_calls_and_pauses(server: Server, cache: Path) -> None:
    later = {"status": 503, "headers": {"Retry-After": "60"}, "after": 6}  # else no call is sent any more
    server.script(replies={"hang": [{"hang": 60}] * 9, "later": [later]})
    chat, budget = open_chat(server, cache), Budget(seconds=6)
    list(chat.run(questions("first")))  # the first call is alone
    answers = list(chat.run(questions("hang 1", "hang 2", "hang 3", "later", "q"), budget=budget))
    outcomes = [outcome for (outcome,) in rows(cache, "SELECT outcome FROM calls WHERE outcome LIKE 'no answer%'")]
    assert len(outcomes) == 3
    assert all(0 < float(outcome.split()[3]) <= 6 for outcome in outcomes)  # no call was given its 120 seconds
    assert "status 503" in answers[3].error
    assert answers[3].error.endswith("; then the limit of 6 seconds was reached")
    assert all(answer.error for answer in answers[:4])
    assert budget.reached == "the limit of 6 seconds was reached; the same command goes on"


def test_a_budget_is_shared_by_runs_and_can_start_from_earlier_ones(server: Server, cache: Path) -> None:
    server.script()
    chat, budget = open_chat(server, cache), Budget(calls=3)
    list(chat.run(questions("a", "b"), budget=budget))
    cached, *others = chat.run(questions("b", "c", "d"), budget=budget)
    assert (cached.error, sorted(answer.error for answer in others)) == ("", ["", "budget"])  # c or d comes first
    assert budget.spent.calls == 3
    [answer] = chat.run(questions("e"), budget=Budget(calls=3, spent=chat.spent()))
    assert answer.error == "budget"
    assert Limits(calls=3).budget(Spent(8), before=Spent(7)).reserve(Spent(1, 1))
    assert not Limits(calls=3).budget(Spent(8), before=Spent(5)).reserve(Spent(1, 1))


def test_the_preview_estimates_what_a_run_takes(server: Server, cache: Path) -> None:
    server.script(seconds=0.1)
    chat = open_chat(server, cache, price_in=1.0, price_out=2.0, concurrency=2)
    requests = questions(*[f"question {number}" for number in range(10)])
    guess = chat.preview(requests)
    assert (guess.calls, guess.cached) == (10, 0)
    assert guess.tokens_in > 0
    assert guess.cost == pytest.approx((guess.tokens_in + 2 * guess.tokens_out) / 1e6)
    list(chat.run(requests[:5]))
    estimate = chat.preview([*requests, requests[9]])
    assert (estimate.calls, estimate.cached) == (5, 6)
    before = chat.spent()
    [(seconds,)] = rows(cache, "SELECT AVG(seconds) FROM calls")
    list(chat.run(requests))
    assert estimate.tokens_in + estimate.tokens_out == pytest.approx(chat.spent().tokens - before.tokens, rel=0.05)
    assert estimate.seconds == pytest.approx(5 * seconds / 2)  # two at a time


# ---------------------------------------------------------------- structured answers


@pytest.mark.parametrize(("formats", "last"), [(["json_object", "text"], "json_object"), (["text"], "text")])
def test_a_server_without_schemas_is_asked_in_a_simpler_format(
    server: Server, cache: Path, formats: list[str], last: str
) -> None:
    server.script(formats=formats)
    chat = open_chat(server, cache, concurrency=1)
    answers = list(chat.run(questions("a", "b", "c")))
    assert [answer.value for answer in answers] == [{"echo": user} for user in "abc"]
    used = [call["format"] for call in server.calls()]
    assert used == ["json_schema", "json_object", "text"][: 3 - len(formats)] + [last] * 3


def test_one_call_finds_out_the_format_for_all_threads_and_for_later_runs(server: Server, cache: Path) -> None:
    server.script(formats=["text"], seconds=0.05)
    chat = open_chat(server, cache, concurrency=4)
    answers = list(chat.run(questions(*"abcdefgh"), budget=Budget(calls=8)))  # the two refusals are no calls
    assert not any(answer.error for answer in answers)
    assert [call["format"] for call in server.calls()] == ["json_schema", "json_object"] + ["text"] * 8
    assert chat.spent().calls == 8
    assert chat.json_mode == "text"
    chat.close()
    server.script(formats=["text"])
    [answer] = open_chat(server, cache).run(questions("i"))
    assert (answer.error, [call["format"] for call in server.calls()]) == ("", ["text"])
    server.script()
    list(open_chat(server, cache, model="other").run(questions("i")))
    assert [call["format"] for call in server.calls()] == ["json_schema"]


def test_a_slow_first_answer_does_not_hold_back_the_others_for_long(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lemmata.llm.chat._PROBE_SECONDS", 0.1)
    server.script(seconds=0.6)
    list(open_chat(server, cache, concurrency=3).run(questions(*"abc")))
    times = [call["time"] for call in server.calls()]
    assert 0.05 < times[1] - times[0] < 0.5


def test_newer_parameter_names_are_tried_after_a_refusal(server: Server, cache: Path) -> None:
    server.script(limit="max_completion_tokens")
    answers = list(open_chat(server, cache, concurrency=1).run(questions("a", "b")))
    assert not any(answer.error for answer in answers)
    assert len(server.calls()) == 3


BOUNDED = {
    "type": "object",
    "properties": {"echo": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 2}},
    "required": ["echo"],
}


def test_a_server_that_refuses_lengths_in_a_schema_gets_the_schema_without_them(server: Server, cache: Path) -> None:
    answer = text_answer({"echo": ["one", "much too long", "two", "three"]})
    server.script(unsupported=["maxLength", "maxItems"], replies={"a": [answer], "b": [answer]})
    answers = list(open_chat(server, cache, concurrency=1).run(questions("a", "b", schema=BOUNDED)))
    assert [answer.value for answer in answers] == [{"echo": ["one", "two"]}] * 2  # the lengths still hold
    assert [call["format"] for call in server.calls()] == ["json_schema"] * 3  # refused, then twice without them


def test_a_server_with_plain_text_only_may_fence_its_json_and_cut_it(server: Server, cache: Path) -> None:
    long = {"items": [f"item {number}" for number in range(40)], "more": []}
    server.script(formats=["text"], fenced=True, replies={"q": [text_answer({"items": ["a"], "more": []})]})
    chat = open_chat(server, cache, concurrency=1, answer_tokens=150)
    [answer] = chat.run(questions("q", schema=ITEMS))
    assert (answer.value, answer.truncated) == ({"items": ["a"], "more": []}, False)
    server.change(formats=["text"], fenced=True, replies={"long": [text_answer(long)] * 3})
    [answer] = chat.run(questions("long", schema=ITEMS))
    assert answer.truncated
    assert answer.value["items"] == long["items"][: len(answer.value["items"])]
    assert len(answer.value["items"]) >= 6


def test_a_wrong_answer_is_corrected_in_a_second_turn(server: Server, cache: Path) -> None:
    server.script(
        replies={"q": [text_answer({"ech": "q"}), text_answer("Sorry, I cannot."), text_answer({"echo": "ok"})]}
    )
    [answer] = open_chat(server, cache).run(questions("q"))
    assert (answer.value, answer.error) == ({"echo": "ok"}, "")
    assert [call["turns"] for call in server.calls()] == [2, 4, 4]
    assert answer.tokens_in + answer.tokens_out == sum(entry["tokens"] for entry in server.answers())


def test_an_answer_that_stays_wrong_is_an_error_with_its_cause(server: Server, cache: Path) -> None:
    server.script(replies={"q": [text_answer({"echo": 3})] * 3})
    [answer] = open_chat(server, cache).run(questions("q"))
    assert answer.error == "tiny gave no valid answer in 3 turns: the answer.echo = 3 should be a text"
    assert answer.text == '{"echo": 3}'
    assert len(server.calls()) == 3


def test_turns_are_part_of_the_budget(server: Server, cache: Path) -> None:
    server.script(replies={"q": [text_answer({})] * 9})
    [answer] = open_chat(server, cache).run(questions("q"), budget=Budget(calls=2))
    wrong = "tiny gave no valid answer: the answer lacks 'echo'"
    assert answer.error == f"{wrong}; then the limit of 2 calls was reached"
    assert len(server.calls()) == 2


ITEMS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"type": "string"}}, "more": {"type": "array"}},
    "required": ["items", "more"],
}


def test_a_truncated_answer_is_asked_again_and_else_repaired(server: Server, cache: Path) -> None:
    long = {"items": [f"item {number}" for number in range(40)], "more": []}
    server.script(replies={"short": [text_answer(long), text_answer({"items": ["all"], "more": []})]})
    chat = open_chat(server, cache, answer_tokens=100)
    [answer] = chat.run(questions("short", schema=ITEMS))
    assert (answer.value, answer.truncated) == ({"items": ["all"], "more": []}, False)
    server.script(replies={"long": [text_answer(long)] * 3})
    for cached in (False, True):
        [answer] = chat.run(questions("long", schema=ITEMS))
        assert (answer.error, answer.truncated, answer.cached) == ("", True, cached)
        assert answer.value["items"] == long["items"][: len(answer.value["items"])]
        assert len(answer.value["items"]) >= 6
        assert answer.value["more"] == []
    assert len(server.calls()) == 3


# ---------------------------------------------------------------- JSON with LaTeX

COMMANDS = (
    r"\alpha \beta \nu \theta \frac{a}{b} \rho \tau \times \neq \nabla \binom{n}{k} \forall \to \begin{x}".split()
)
SAFE = r"\alpha \sum_{n\ge0} \lambda \{ \} \, \leq \zeta \int \operatorname{Hom} \mathbb{Q} \(x\)".split()
words = st.text(st.characters(codec="utf-8", exclude_characters="\\\b\f", exclude_categories=["Cs"]), max_size=12)
texts = st.lists(st.sampled_from(COMMANDS + SAFE + ["\n", "\t", "\r\n", '"', "\\\\", "$", " "]) | words, max_size=12)
latex = texts.map("".join).map(lambda text: r"\alpha " + text)
values = st.recursive(
    latex | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(latex, inner, max_size=4),
    max_leaves=8,
)


@given(values, st.booleans())
def test_proper_json_is_read_as_json(value: Any, ascii_only: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_only)) == (value, False)
    assert read_json(to_json_text(value)) == (value, False)


@given(st.lists(st.sampled_from(["word", "$x$", "\n", "\t", "é", '"quoted"', "3 < 4", "[1]", "{a}"]), max_size=10))
def test_proper_json_without_any_latex_is_read_as_json(pieces: list[str]) -> None:
    value = {"text": " ".join(pieces)}
    assert read_json(json.dumps(value)) == (value, False)


@given(st.lists(st.sampled_from(COMMANDS + SAFE + ["and", "$", "x_1", "é", "12", r"\\ "]), max_size=12), st.booleans())
def test_single_backslashes_are_taken_literally(pieces: list[str], fenced: bool) -> None:
    meant = " ".join([r"\alpha", *pieces])
    text = f'{{"a": "{meant}", "b": ["{meant}"]}}'
    text = f"Here you are:\n```json\n{text}\n```" if fenced else text
    assert read_json(text).value == {"a": meant, "b": [meant]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lone_command_in_math_survives_with_one_backslash_or_two(command: str) -> None:
    assert read_json(f'{{"a": "${command}$"}}').value == {"a": f"${command}$"}
    assert read_json(json.dumps({"a": f"${command}$"})).value == {"a": f"${command}$"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"first\nsecond", "first\nsecond"),
        (r"a\tb", "a\tb"),
        (r"x\nu", "x\nu"),  # outside of dollars a line end is as likely, and JSON says so
        (r"$x\nu$", r"$x\nu$"),
        (r"3 \times 4", r"3 \times 4"),
        (r"\\alpha\nu", "\\alpha\nu"),  # doubled backslashes elsewhere: it is a line end
        (r"\alpha\nu", r"\alpha\nu"),
        (r"\alpha.\nThen", "\\alpha.\nThen"),
        (r"\begin{matrix} a & b \\ c & d \end{matrix}", r"\begin{matrix} a & b \\ c & d \end{matrix}"),
        (r"\\alpha and \beta", r"\alpha and \beta"),
        (r"Poincar\'e isn\'t", r"Poincar\'e isn't"),
        (r"\(K\"ahler\)", r"\(K\"ahler\)"),
        (r"say \"open\"", 'say "open"'),
        (r"\u00e9\upsilon", "é\\upsilon"),
        (r"\ud83d\ude00 \ud83d", "😀 �"),
        (r"http:\/\/a", "http://a"),
        (r"$\tr A$", r"$\tr A$"),
        (r"page\fNext", "page\fNext"),
    ],
)
def test_context_decides_about_backslashes(written: str, meant: str) -> None:
    assert read_json(f'{{"a": "{written}"}}').value == {"a": meant}


def test_other_strings_decide_for_a_string_without_evidence() -> None:
    assert read_json(r'["\alpha", "x\nu"]').value == [r"\alpha", r"x\nu"]
    assert read_json(r'["\\alpha", "$x\nu$"]').value == [r"\alpha", "$x\nu$"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('<think>maybe {"a": 1}?</think>{"a": 2}', {"a": 2}),
        ('As in [1], the set {x} has ```\n{"a": [1, 2,], }\n```', {"a": [1, 2]}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('[1] says \\frac{a}{b}: [{"a": null}] and so on', [{"a": None}]),
        ("12", 12),
        ('"text"', "text"),
        ("\ufeff{}", {}),
    ],
)
def test_text_around_the_value_is_ignored(text: str, value: Any) -> None:
    assert read_json(text) == (value, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "{",
        '{"a',
        "[",
        "{a: 1}",
        "[" * 5000,
        "{'a': 1}",
        '{"a": [{"b": 1} {"b": 2}]}',
        '{"a" 1}',
        "<think>{}"[:7],
    ],
)
def test_a_text_without_json_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        read_json(text)


def test_every_cut_keeps_complete_items_only() -> None:
    whole: dict[str, Any] = {
        "concepts": [{"name": f"$\\alpha_{n}$", "kind": "object", "n": n} for n in range(4)],
        "relations": [1.5, True],
    }
    text = to_json_text(whole)
    seen = set()
    for end in range(len(text)):
        try:
            value, truncated = read_json(text[:end])
        except InputError:
            continue
        assert truncated
        assert value["concepts"] == whole["concepts"][: len(value["concepts"])]
        assert value.get("relations", []) in ([], [1.5], [1.5, True])
        seen.add(len(value["concepts"]))
    assert seen == {1, 2, 3, 4}
    assert read_json(f"Here:\n```json\n{text[:-30]}\n```").truncated


# ---------------------------------------------------------------- schemas


def test_complaints_name_place_and_cause() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 3},
            "kind": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            "maybe": {"type": ["number", "null"]},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    valid = {"name": "abc", "kind": "a", "list": [1], "maybe": None}
    assert fit(valid, schema) == (valid, "", (), False)
    assert fit("abc", schema).complaint == "the answer = 'abc' should be an object"
    assert fit({"kind": "c", "list": [], "maybe": "x"}, schema).complaint == "; ".join(
        [
            "the answer lacks 'name'",
            "the answer.kind = 'c' (there are: a, b)",
            "the answer.list = [] is too small: at least 1 items",
            "the answer.maybe = 'x' should be a number or nothing",
        ]
    )
    assert fit({"name": "long"}, schema).complaint == "the answer.name = 'long' is too large: at most 3 characters"
    assert fit({"name": ""}, schema).complaint == "the answer.name = '' is too small: at least 1 characters"
    assert fit({"name": "a", "list": [1, True, 2.5, "7", 3, 4]}, schema) == (
        {"name": "a", "list": [1, 7]},
        "",
        (
            "the answer.list[1] = True should be a whole number",
            "the answer.list[2] = 2.5 should be a whole number",
            "the answer.list is too large: at most 2 items",
        ),
        False,
    )


@pytest.mark.parametrize(
    ("written", "schema", "meant"),
    [
        ("3", {"type": "integer"}, 3),
        (" [3] ", {"type": "integer"}, 3),
        (3.0, {"type": "integer"}, 3),
        ("-0.5", {"type": "number"}, -0.5),
        ("True", {"type": "boolean"}, True),
        ("Is instance-of", {"enum": ["is_instance_of", "uses"]}, "is_instance_of"),
        ("one", {"type": "array", "items": {"type": "string"}}, ["one"]),
        ([{"Echo": "x"}], SCHEMA, {"echo": "x"}),
        ({"answer": {"echo": "x"}}, SCHEMA, {"echo": "x"}),
        ({"answers": [{"echo": "x"}, "and so on"]}, SCHEMA, {"echo": "x"}),
    ],
)
def test_what_can_mean_one_thing_only_is_taken_as_that(written: Any, schema: dict[str, Any], meant: Any) -> None:
    assert fit(written, schema) == (meant, "", (), False)


def table_of(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of a list of objects."""
    texts = {name: {"type": "string"} for name in required}
    entry = {"type": "object", "properties": texts | properties, "required": [*required]}
    return {"type": "array", "items": {**entry, "additionalProperties": False}}


def test_a_bare_list_is_the_one_list_whose_entries_have_its_keys() -> None:
    tables = {"concepts": table_of("name", "kind"), "relations": table_of("source", "target")}
    schema = {"type": "object", "properties": tables, "required": ["concepts", "relations"]}
    hecke, edge = {"name": "Hecke algebra", "kind": "object"}, {"source": "a", "target": "b"}
    assert fit([hecke], schema).value == {"concepts": [hecke], "relations": []}
    assert fit([edge, edge], schema).value == {"concepts": [], "relations": [edge, edge]}
    assert fit([hecke, "and so on"], schema).value == {"concepts": [hecke], "relations": []}
    assert fit([{"Name": "Hecke algebra"}], schema, {"kind": "object"}).value["concepts"] == [hecke]
    for unclear in ([hecke, edge], [hecke | edge], [{"name": "x"}], ["x"], []):
        assert fit(unclear, schema).complaint.endswith("should be an object"), unclear


def test_an_object_with_numbers_as_keys_is_a_list_in_their_order() -> None:
    queries = table_of("text", passage={"type": "integer"})
    written = {"10": {"text": "c"}, "[2]": {"text": "b", "passage": 7}, "1": {"text": "a"}}
    assert fit(written, queries).value == [
        {"text": "a", "passage": 1},
        {"text": "b", "passage": 7},
        {"text": "c", "passage": 10},
    ]
    assert fit({"2": {"text": "b"}, "1": {"text": "a"}}, table_of("text")).value == [{"text": "a"}, {"text": "b"}]
    two = table_of("text", first={"type": "integer"}, last={"type": "integer"})
    assert fit({"1": {"text": "a"}}, two).value == [{"text": "a"}]
    assert fit({"1": "a", "2": "b"}, {"type": "array", "items": {"type": "string"}}).value == ["a", "b"]


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        ("3 of 4", {"type": "integer"}),
        (3.5, {"type": "integer"}),
        (True, {"type": "integer"}),
        (math.inf, {"type": "integer"}),
        ("three", {"type": "number"}),
        ("null", {"type": "boolean"}),
        (3, {"type": "string"}),
        ("generalized_by", {"enum": ["generalizes", "uses"]}),  # the other direction
        ({"ECHO": "x", "Echo": "y"}, SCHEMA),
        ([{"echo": "x"}, {"echo": "y"}], SCHEMA),
    ],
)
def test_what_can_mean_several_things_is_not_taken(written: Any, schema: dict[str, Any]) -> None:
    fitted = fit(written, schema)
    assert fitted.value is None
    assert fitted.complaint


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("Theorem", "theorem"),
        ("theorems", "theorem"),
        ("teorem", "theorem"),
        ("a mathematical person", "person"),
        ("theorem/person", "object"),
        ("lemma", "object"),
        (7, "object"),
        (None, "object"),
    ],
)
def test_a_choice_with_a_default_is_the_nearest_one_if_it_is_clear(kind: Any, meant: str) -> None:
    schema = {"type": "object", "properties": {"kind": {"type": "string", "enum": ["object", "theorem", "person"]}}}
    fitted = fit({"kind": kind}, schema, {"kind": "object"})
    assert fitted.value == {"kind": meant}
    assert bool(fitted.notes) == (meant == "object" and kind is not None)


ENTRIES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "text": {"type": "string", "minLength": 1, "maxLength": 40},
                    "kind": {"type": "string", "enum": ["object", "theorem"]},
                },
                "required": ["number", "text", "kind"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["entries"],
    "additionalProperties": False,
}
entries = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.integers(-99, 99),
            "text": words.filter(bool),
            "kind": st.sampled_from(["object", "theorem"]),
        }
    ),
    min_size=1,
    max_size=4,
)


def written_loosely(draw: Any, entry: dict[str, Any]) -> dict[str, Any]:
    """The same entry with numbers as text, keys and choices in another case, and a further key."""
    case = draw(st.sampled_from([str.lower, str.upper, str.title]))
    loose: dict[str, Any] = {case(key): value for key, value in entry.items()}
    if draw(st.booleans()):
        number = entry["number"]
        loose[case("number")] = draw(st.sampled_from([str(number), f"[{number}]", float(number)]))
    if draw(st.booleans()):
        loose[case("kind")] = entry["kind"].title()
    if draw(st.booleans()):
        loose["remark"] = draw(st.none() | st.lists(st.integers(), max_size=2))
    return loose


@given(entries, st.data())
def test_an_answer_that_is_written_loosely_has_the_value_of_the_strict_one(
    wanted: list[dict[str, Any]], data: st.DataObject
) -> None:
    loose: Any = [written_loosely(data.draw, entry) for entry in wanted]
    if len(loose) == 1 and data.draw(st.booleans(), "one entry, no list"):
        loose = loose[0]
    if data.draw(st.booleans(), "with its key"):
        loose = {"entries": loose, "note": "as asked"}
    elif len(wanted) > 1 or data.draw(st.booleans(), "a list of one"):
        loose = loose if isinstance(loose, list) else [loose]
    text = json.dumps(loose, ensure_ascii=data.draw(st.booleans()))
    if data.draw(st.booleans(), "trailing comma"):
        text = f"{text[:-1]}, {text[-1]}"
    if data.draw(st.booleans(), "fence"):
        text = f"Here [1] it is:\n```json\n{text}\n```\nAnything else?"
    assert read_answer(text, ENTRIES) == ({"entries": wanted}, "", (), False)


def is_valid(value: Any) -> bool:
    """Whether a value satisfies ENTRIES, written out by hand."""
    return set(value) == {"entries"} and all(
        set(entry) == {"number", "text", "kind"}
        and type(entry["number"]) is int
        and 1 <= len(entry["text"]) <= 40
        and entry["kind"] in ("object", "theorem")
        for entry in value["entries"]
    )


PIECES = [
    '{"entries": [',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"number"',
    "1",
    '"text"',
    '"a"',
    '"kind"',
    '"object"',
    "\\",
    '"',
]
anything = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["entries", "Number", "number", "text", "kind", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(anything | any_json.map(json.dumps), st.sampled_from([None, {"kind": "object"}]))
def test_any_text_is_read_and_gives_a_valid_value_or_a_complaint(text: str, defaults: dict[str, Any] | None) -> None:
    fitted = read_answer(text, ENTRIES, defaults)
    assert (fitted.value is None) == bool(fitted.complaint)
    assert fitted.value is None or is_valid(fitted.value)


def test_invalid_entries_are_dropped_with_a_note_and_the_others_kept(server: Server, cache: Path) -> None:
    good = {"number": 1, "text": "a", "kind": "object"}
    value = {"entries": [good, {"number": "x", "text": "b", "kind": "object"}, "c", {**good, "kind": "lemma"}]}
    server.script(replies={"q": [text_answer(value)]})
    for cached in (False, True):
        [answer] = open_chat(server, cache).run(questions("q", schema=ENTRIES))
        assert (answer.value, answer.error, answer.cached) == ({"entries": [good]}, "", cached)
        assert answer.notes == (
            "the answer.entries[1].number = 'x' should be a whole number",
            "the answer.entries[2] = 'c' should be an object",
            "the answer.entries[3].kind = 'lemma' (there are: object, theorem)",
        )
    assert len(server.calls()) == 1


def test_an_answer_without_a_valid_entry_is_corrected(server: Server, cache: Path) -> None:
    good = {"number": 1, "text": "a", "kind": "object"}
    server.script(replies={"q": [text_answer([{"number": 1}]), text_answer([good])]})
    [answer] = open_chat(server, cache).run(questions("q", schema=ENTRIES))
    assert (answer.value, answer.error) == ({"entries": [good]}, "")
    assert [call["turns"] for call in server.calls()] == [2, 4]


def test_another_model_schema_or_system_prompt_is_another_question(server: Server, cache: Path) -> None:
    server.script()
    first, second = (Request(system, "q", SCHEMA) for system in ("Be brief.", "Be kind."))
    list(open_chat(server, cache).run([first]))
    assert open_chat(server, cache).preview([first]).calls == 0
    assert open_chat(server, cache).preview([first._replace(schema=None)]).calls == 1
    assert open_chat(server, cache, model="other").preview([first]).calls == 1
    assert [answer.cached for answer in open_chat(server, cache).run([first, second])] == [True, False]
    assert len(server.calls()) == 2


def test_a_killed_call_counts_at_its_worst_in_the_budget_of_the_next_run(server: Server, cache: Path) -> None:
    server.script(seconds=60)
    command = [sys.executable, "-c", CLIENT, server.url, str(cache)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not server.calls():  # until the first call has reached the server
        assert client.poll() is None
    client.kill()
    client.wait()
    assert client.stdout is not None
    client.stdout.close()
    server.script()
    chat = open_chat(server, cache, price_out=1.0)
    spent = chat.spent()
    assert 1 <= spent.calls <= 2
    assert spent.tokens >= spent.calls * EndpointOptions().answer_tokens
    [answer] = chat.run(questions("q"), budget=Limits(calls=spent.calls).budget(chat.spent(), Spent()))
    assert answer.error == "budget"
    [answer] = chat.run(questions("q"), budget=Limits(tokens=spent.tokens).budget(chat.spent(), Spent()))
    assert answer.error == "budget"
    assert server.calls() == []
