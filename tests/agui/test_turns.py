"""Turns through the route: what a client is told of text, calls, steps, cards and the board, turn after turn."""

import pytest

pytestmark = pytest.mark.anyio


@pytest.mark.req("AGUI-1", "AGUI-5", "AGUI-10", "AGUI-12", "AGUI-20")
async def test_a_turn_is_streamed_from_its_beginning_to_its_end(server):
    async with server() as s:
        page = s.page()
        client = await page.say("hello there")
        assert client.kinds() == [
            "RUN_STARTED",
            "STATE_SNAPSHOT",
            "TEXT_MESSAGE_START",
            *["TEXT_MESSAGE_CONTENT"] * client.kinds().count("TEXT_MESSAGE_CONTENT"),
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        assert client.text() == "[AI] hello there"
        assert client.of("RUN_STARTED")[0]["threadId"] == "t1"
        assert client.of("RUN_FINISHED")[0]["outcome"] == {"type": "success"}


@pytest.mark.req("AGUI-41", "AGUI-47")
async def test_three_turns_with_the_whole_history_sent_back(server):
    async with server() as s:
        page = s.page()
        for word in ("one", "two", "three"):
            await page.say(word)
        assert page.client.text() == "[AI] one\n[AI] two\n[AI] three"


@pytest.mark.req("AGUI-15", "AGUI-16", "AGUI-21", "AGUI-44")
async def test_delegated_jobs_are_steps_and_the_board_is_the_state(server):
    async with server() as s:
        client = await s.page("anna", agent="planner").say("plan it")
        steps = [e["stepName"] for e in client.of("STEP_STARTED")]
        assert sorted(steps) == sorted(e["stepName"] for e in client.of("STEP_FINISHED"))
        assert len(set(steps)) == 2
        notes = client.state["board"]["notes"]
        assert [note["text"] for note in notes[:1]] == ["Both workers are done."]
        assert notes[0]["supersedes"] == "1"
        assert {note["agent"] for note in notes[1:]} == {"worker"}
        assert {note["job"] for note in notes[1:]} == set(steps)
        assert "I looked into" in client.text()
        assert client.text().startswith("[AI] The plan is done.")
        assert all(m["id"].split(":")[0] not in steps for m in client.messages)


@pytest.mark.req("AGUI-17")
async def test_an_answer_that_matches_the_card_schema_is_a_card_before_the_end(server):
    async with server() as s:
        client = await s.page(agent="carder").say("lunch")
        (card,) = client.of("oz0.card")
        assert card["card"] == {"title": "A card", "body": "You wrote: lunch"}
        assert client.kinds()[-2:] == ["oz0.card", "RUN_FINISHED"]


@pytest.mark.req("AGUI-20", "AGUI-22")
async def test_a_job_that_fails_ends_the_run_with_an_error_and_the_next_message_works(server):
    async with server() as s:
        page = s.page(agent="crasher")
        client = await page.say("go")
        assert client.events[-1] == {
            "type": "RUN_ERROR",
            "code": "failed",
            "message": "the demo's crasher always fails",
        }
        page.agent = "echo"
        assert (await page.say("still here?")).text().endswith("[AI] still here?")


@pytest.mark.req("AGUI-13", "AGUI-18", "AGUI-30", "AGUI-33", "AGUI-39", "AGUI-47", "AGUI-49")
async def test_an_approval_is_an_interrupt_and_its_yes_streams_the_turn_on(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        client = await page.say("greet them")
        (call,) = client.of("TOOL_CALL_START")
        assert call["toolCallName"] == "team.greet"
        (wait,) = client.interrupts
        assert (wait["reason"], wait["toolCallId"]) == ("tool_call", call["toolCallId"])
        assert wait["id"].startswith("ozi1.")
        assert wait["expiresAt"].endswith("Z")
        assert set(wait["responseSchema"]["properties"]) == {"approved", "comment"}
        assert wait["metadata"]["oz0/details"] == {"channel": "#team"}
        assert wait["metadata"]["oz0/kind"] == "approval"
        assert wait["metadata"]["oz0/job"] == call["parentMessageId"].split(":")[0]
        assert client.kinds()[-1] == "RUN_FINISHED"

        client = await page.resume({"approved": True, "comment": "go ahead"})
        assert client.of("oz0.resume") == [{"interruptId": wait["id"], "outcome": "decided", "approved": True}]
        (result,) = client.of("TOOL_CALL_RESULT")
        assert (result["toolCallId"], result["content"]) == (call["toolCallId"], "Greeted #team.")
        assert client.of("TOOL_CALL_START") == []
        assert client.text() == "[AI] I greeted the team."
        assert client.of("RUN_FINISHED")[0]["outcome"] == {"type": "success"}
        assert (await page.say("again")).interrupts


@pytest.mark.req("AGUI-38")
@pytest.mark.parametrize("payload", [{"approved": False}, None], ids=["denied", "cancelled"])
async def test_a_no_denies_and_the_turn_goes_on(server, payload):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        client = await page.resume(payload)
        assert client.text() == "[AI] I did not greet the team."
        assert client.of("oz0.resume")[0]["approved"] is False


@pytest.mark.req("AGUI-31", "AGUI-38")
@pytest.mark.parametrize(
    ("payload", "answer"), [({"answer": "red"}, "You chose red."), (None, "You chose nothing.")], ids=["answered", "declined"]
)
async def test_a_question_is_answered_by_the_person_who_started_the_job(server, payload, answer):
    async with server() as s:
        page = s.page("anna", agent="asker")
        (wait,) = (await page.say("ask me")).interrupts
        assert (wait["reason"], wait["message"]) == ("input_required", "[AI] Which colour?")
        assert wait["responseSchema"]["properties"]["answer"]["enum"] == ["red", "green", "blue"]
        assert wait["metadata"]["oz0/choices"] == ["red", "green", "blue"]
        assert wait["metadata"]["oz0/ai-label"] == "AI"
        client = await page.resume(payload)
        assert client.text() == f"[AI] {answer}"


@pytest.mark.req("AGUI-28", "AGUI-36")
async def test_two_approvals_are_answered_together(server):
    async with server() as s:
        page = s.page("omar", agent="two_calls")
        client = await page.say("both")
        assert [w["metadata"]["oz0/details"]["channel"] for w in client.interrupts] == ["#design", "#support"]
        client = await page.resume({"approved": True}, {"approved": False, "comment": "not them"})
        assert client.text() == "[AI] I greeted #design. I did not greet #support."
        assert [e["approved"] for e in client.of("oz0.resume")] == [True, False]


@pytest.mark.req("AGUI-41", "AGUI-54")
async def test_saying_an_old_message_again_is_a_mismatch_and_the_thread_goes_on_after_it(server):
    async with server() as s:
        page = s.page()
        for word in ("one", "two", "three"):
            await page.say(word)
        old = page.client.messages[:1]
        refused = await page.run(messages=old)
        assert refused.events[-1]["code"] == "history_mismatch"
        await page.say("four")
        assert page.client.events[-1]["type"] == "RUN_FINISHED", page.client.events[-1]
        assert page.client.text().endswith("[AI] four")


@pytest.mark.req("AGUI-7")
async def test_other_words_under_a_runs_id_are_a_conflict_and_the_message_still_counts(server):
    async with server() as s:
        page = s.page()
        await page.say("one")
        same = page.body(run=f"{id(page)}-run-1")
        changed = [{**page.client.messages[0], "content": "other words"}]
        assert (await page.post({**same, "messages": changed})).status_code == 409
        await page.say("two")
        assert page.client.text().endswith("[AI] two")
