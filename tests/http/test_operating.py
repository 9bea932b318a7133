"""What whoever runs the servers leans on: health, metrics, rates, a graceful stop, workers on one journal."""

import hashlib
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest

from counterfoil.store.domain.commands import OperationRef, ReceiptGiven, RecordReceipt
from http_servers import TOKENS, HttpServer, issue_token, operating, wait_until
from journals import AGENT, journal_url
from stdio_process import call, modern_call

pytestmark = pytest.mark.anyio

EFFECT = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send", "target": "alice"}
SCRAPER = hashlib.sha256(b"scraper").hexdigest()


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """Give the answer of a tool."""
    assert response.status_code == 200, response.text
    return dict(response.json()["result"]["structuredContent"])


def is_listening(server: HttpServer) -> bool:
    """Tell whether a new connection is taken."""
    try:
        server.get("/healthz")
    except httpx2.ConnectError:
        return False
    return True


def metric(page: str, name: str) -> float:
    """Give the value of one line of a page of metrics."""
    [value] = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(value)


async def test_workers_of_one_journal_are_one_server(store: str, tmp_path: Path) -> None:
    place = journal_url(tmp_path / "journal.db")
    with HttpServer(place) as one, HttpServer(place) as two:
        turns = cycle((one, two))
        who = {"trace": {"conversation": "c-1"}}

        def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            return answer_of(next(turns).post(call(1, tool, **arguments)))

        plan = [{"key": "email:bob", "action": "mail.send", "target": "bob"}]
        assert ask("begin_run", run=EFFECT["run"], plan=plan, **who)["reason"] == "started"
        assert ask("begin_run", run=EFFECT["run"], **who)["reason"] == "resumed"
        call_id = "toolu_redelivered_001"
        begun = ask("begin_operation", **EFFECT, call_id=call_id, **who)
        again = ask("begin_operation", **EFFECT, call_id=call_id, **who)
        assert (begun["reason"], again["reason"]) == ("first_attempt", "replayed")
        assert begun["idempotency_key"] == again["idempotency_key"]
        done = {"operation": begun["operation"], "attempt": 1, "external_id": "m-1", **who}
        assert ask("record_receipt", **done)["state"] == "succeeded"
        assert ask("record_receipt", **done)["reason"] == "duplicate"
        assert ask("begin_operation", **EFFECT, **who)["next"] == "skip"

        def begin(number: int) -> str:
            effect = {**EFFECT, "key": "email:bob", "target": "bob"}
            caller = {"trace": {"conversation": f"racer-{number}"}}
            return str(answer_of((one, two)[number % 2].post(call(number, **effect, **caller)))["next"])

        with ThreadPoolExecutor(20) as racers:
            assert Counter(racers.map(begin, range(20))) == {"perform": 1, "wait": 19}


async def test_a_journal_that_cannot_be_used_fails_both_looks_with_the_cause(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    place.write_bytes(b"no journal at all, and longer than a header of SQLite has to be" * 20)
    with HttpServer(place) as server:
        for path in ("/healthz", "/readyz"):
            answer = server.get(path)
            assert answer.status_code == 503
            assert answer.json()["code"] == "journal_unavailable"
            assert answer.json()["message"]
        told = server.post(call(1, **EFFECT)).json()["result"]
        assert told["isError"] is True
        assert "do not perform" in json.loads(told["content"][0]["text"])["fix"].lower()
        assert metric(server.get("/metrics").text, "counterfoil_journal_up") == 0
        place.unlink()
        wait_until(lambda: server.get("/readyz").status_code == 200)
        assert server.get("/healthz").text == "ok\n"


async def test_without_a_journal_nobody_can_be_told_from_anybody(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    token = await issue_token(place, "team", "ci")
    place.write_bytes(b"no journal any more" * 100)
    with HttpServer(place, folder=tmp_path, configuration=TOKENS) as server:
        answer = server.post(call(1, **EFFECT), authorization=f"Bearer {token}")
        assert answer.status_code == 503
        assert answer.json()["error"]["data"]["recorded"] is False


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """Give a server that lets two requests through and refills one in a while, and that has a scraper."""
    folder = tmp_path_factory.mktemp("watched")
    configuration = f'{TOKENS}calls_per_second = 0.01\nburst = 3\nmetrics_token_sha256 = "{SCRAPER}"\n'
    with HttpServer(folder / "journal.db", folder=folder, configuration=configuration) as server:
        yield server


async def test_who_sends_too_many_is_told_when_to_come_again_and_takes_nothing_from_others(
    watched: HttpServer,
) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    runaway = await issue_token(watched.journal, "team", "runaway")
    other = await issue_token(watched.journal, "team", "other")
    answers = [watched.post(ping, authorization=f"Bearer {runaway}") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[3].headers["retry-after"]) <= 100
    assert answers[3].json()["error"]["data"]["recorded"] is False
    assert watched.post(ping, authorization=f"Bearer {other}").status_code == 200


async def test_the_operator_sees_the_operations_of_each_namespace_and_nobody_else_does(
    watched: HttpServer,
) -> None:
    token = await issue_token(watched.journal, "counted", "ci")
    bearer = f"Bearer {token}"
    who = {"trace": {"conversation": "c"}}
    begun = answer_of(watched.post(call(1, **EFFECT, **who), authorization=bearer))
    failed = {"operation": begun["operation"], "attempt": 1, "effect": "unknown", "error": "timeout", **who}
    answer_of(watched.post(call(2, "record_failure", **failed), authorization=bearer))
    for headers in ({}, {"authorization": bearer}, {"authorization": "Bearer wrong"}):
        assert watched.get("/metrics", **headers).status_code == 401
    assert watched.get("/metrics", authorization="Bearer scraper", host="evil.example").status_code == 421
    page = watched.get("/metrics", authorization="Bearer scraper").text
    assert metric(page, 'counterfoil_operations{namespace="counted",state="in_doubt"}') == 1
    assert metric(page, 'counterfoil_operations_in_doubt{namespace="counted"}') == 1
    oldest = 'counterfoil_oldest_operation_age_seconds{namespace="counted",state="in_doubt"}'
    assert 0 < metric(page, oldest) < 600
    assert metric(page, 'counterfoil_calls_total{outcome="perform",tool="begin_operation"}') == 1
    assert metric(page, 'counterfoil_call_seconds_count{tool="record_failure"}') == 1


async def test_calls_under_way_are_answered_after_the_signal_and_new_callers_are_sent_elsewhere(
    tmp_path: Path,
) -> None:
    configuration = "[http]\nnotice_seconds = 600\n"
    with HttpServer(tmp_path / "journal.db", folder=tmp_path, configuration=configuration) as server:
        begun = answer_of(server.post(call(1, **EFFECT, trace={"conversation": "c"})))
        waiting: list[httpx2.Response] = []

        def wait() -> None:
            check = call(2, "check_operation", operation=begun["operation"], wait_seconds=50)
            waiting.append(server.post(check))

        caller = threading.Thread(target=wait)
        caller.start()
        under_way = "counterfoil_requests_under_way"
        wait_until(lambda: metric(server.get("/metrics").text, under_way) == 1)
        server.stop()
        wait_until(lambda: server.get("/readyz").status_code == 503)
        assert "ending" in server.get("/readyz").json()["message"]
        assert server.get("/healthz").status_code == 200
        last = server.post(call(3, "check_operation", operation=begun["operation"]))
        assert (answer_of(last)["state"], last.headers["connection"]) == ("in_progress", "close")
        server.stop(signal.SIGINT)
        wait_until(lambda: not is_listening(server))
        async with operating(server.journal, "default") as journal:
            await journal.record_receipt(
                RecordReceipt(
                    ref=OperationRef(operation=begun["operation"]),
                    receipt=ReceiptGiven(kind="message", external_id="m-1"),
                ),
                AGENT,
            )
        caller.join(20)
        assert answer_of(waiting[0])["state"] == "succeeded"
        assert server.ended() == 0


@pytest.mark.parametrize("make", [call, modern_call])
async def test_a_call_that_goes_on_for_ever_is_cut_off_at_the_stop_and_told_so(
    tmp_path: Path, make: Any
) -> None:
    configuration = "[http]\ndrain_seconds = 1\n"
    with HttpServer(tmp_path / "journal.db", folder=tmp_path, configuration=configuration) as server:
        begun = answer_of(server.post(call(1, **EFFECT)))
        check = make(2, "check_operation", operation=begun["operation"], wait_seconds=50)
        version = "2026-07-28" if make is modern_call else "2025-06-18"
        era = {"mcp_protocol_version": version, "mcp_method": "tools/call", "mcp_name": "check_operation"}
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(lambda: server.post(check, **era))
            under_way = "counterfoil_requests_under_way"
            wait_until(lambda: metric(server.get("/metrics").text, under_way) == 1)
            server.stop()
            assert server.ended() == 0
            answer = asked.result()
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        told = answer.json()
        assert (told["id"], told["error"]["data"]["code"]) == (2, "journal_unavailable")
        assert told["error"]["data"]["recorded"] is None
        assert b"Traceback" not in server.said
        assert b"ERROR" not in server.said


async def test_the_answer_to_a_question_of_one_worker_may_go_to_another(tmp_path: Path) -> None:
    configuration = f'{TOKENS}[[authority]]\naction = "pay.*"\nrequire = "grant"\n'
    place = tmp_path / "journal.db"
    token = await issue_token(place, "team", "boss")
    others = await issue_token(place, "team", "other-boss")
    given = {"folder": tmp_path, "configuration": configuration}
    with HttpServer(place, **given) as one, HttpServer(place, **given) as two:

        def ask(
            server: HttpServer, tool: str, more: dict[str, Any], *, by: str = token, **arguments: Any
        ) -> dict[str, Any]:
            request = modern_call(1, tool, **arguments)
            meta = request["params"]["_meta"]
            meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
            request["params"].update(more)
            headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}
            return dict(server.post(request, authorization=f"Bearer {by}", **headers).json()["result"])

        effect = {"run": "rent", "key": "pay", "action": "pay.send"}
        step = {"run": "rent", "key": "pay"}
        assert ask(one, "begin_operation", {}, **effect)["structuredContent"]["next"] == "ask"
        asked = ask(one, "request_authority", {}, **step)
        assert asked["resultType"] == "input_required"
        ticked = {"permit": {"action": "accept", "content": {"permit": True}}}
        made_up = {"inputResponses": ticked, "requestState": "0" * 64}
        assert ask(two, "request_authority", made_up, **step)["resultType"] == "input_required"
        reply = {"inputResponses": ticked, "requestState": asked["requestState"]}
        assert ask(two, "request_authority", reply, by=others, **step)["resultType"] == "input_required"
        assert (
            ask(two, "request_authority", reply, **step, why="all is well")["resultType"] == "input_required"
        )
        answered = ask(two, "request_authority", reply, **step)["structuredContent"]
        assert (answered["next"], answered["grant"]["source"]) == ("begin", "elicitation")
        assert "token:boss" in answered["grant"]["granted_by"]
        assert ask(one, "begin_operation", {}, **effect)["structuredContent"]["next"] == "perform"
