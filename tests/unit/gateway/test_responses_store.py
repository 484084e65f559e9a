"""What a session keeps of its Responses: found by id, forgotten with its response, never without end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import Sampling
from castform.endpoint import SessionSpec
from castform_trainer.gateway.dialects.responses import store
from castform_trainer.gateway.sessions import Session

IDS = ["a", "b", "c", None, 3]
ITEMS = st.builds(
    lambda id, kind, text: {"type": kind, "text": text, **({} if id is None else {"id": id})},
    st.sampled_from(IDS),
    st.sampled_from(["message", "function_call", "item_reference"]),
    st.integers(0, 9),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["keep", "keep", "remove"]),
        st.sampled_from(["r1", "r2", "r3"]),
        st.lists(ITEMS, max_size=3),
        st.lists(ITEMS.filter(lambda item: "id" in item), max_size=2),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_an_item_is_found_as_if_every_kept_one_were_looked_at(steps):
    session = Session(spec=SessionSpec(session_id="s", sampling=Sampling()), key="k")
    kept = {}
    for what, key, items, output in steps:
        if what == "keep":
            store.keep_response(
                session, {"id": key, "output": output, "previous_response_id": None}, items, size=7
            )
            kept.setdefault(key, [*output, *items])
        elif key in kept:
            store.remove_response(session, key)
            del kept[key]
    for wanted in ("a", "b", "c"):
        all_items = [item for items in kept.values() for item in items]
        fitting = [i for i in all_items if i.get("id") == wanted and i["type"] != "item_reference"]
        assert store.find_item(session, wanted) == (fitting[0] if fitting else None)
    found = session.stored.get(store.STORE)
    assert found is None or (found.bytes == 7 * len(kept) and set(found.responses) == set(kept))


async def post(bench, grant, body, **more):
    headers = {"Authorization": f"Bearer {grant.api_key}", **more}
    async with bench.http.post(f"{grant.base_url}/responses", json=body, headers=headers) as reply:
        return reply.status, await reply.json()


@pytest.mark.parametrize("bound", [{"MAX_RESPONSES": 2}, {"MAX_BYTES": 60}], ids=["count", "bytes"])
async def test_a_session_that_keeps_as_much_as_it_may_says_so_before_it_samples(
    make_bench, monkeypatch, bound
):
    for name, value in bound.items():
        monkeypatch.setattr(store, name, value)
    bench = await make_bench(["hello"])
    grant = await bench.open()
    answers = [await post(bench, grant, {"model": "fake", "input": f"go {n}"}) for n in range(3)]
    assert [status for status, _ in answers] == [200, 200, 400]
    error = answers[2][1]["error"]
    assert (error["code"], error["param"]) == ("too_many_stored_responses", "store")
    assert "store=false" in error["message"] and len(await bench.calls()) == 2
    assert (await post(bench, grant, {"model": "fake", "input": "go", "store": False}))[0] == 200
    headers = {"Authorization": f"Bearer {grant.api_key}"}
    url = f"{grant.base_url}/responses/{answers[0][1]['id']}"
    async with bench.http.delete(url, headers=headers) as gone:
        assert gone.status == 200
    assert (await post(bench, grant, {"model": "fake", "input": "go 4"}))[0] == 200


@pytest.mark.parametrize(
    "header", [{"x-stainless-retry-count": "1"}, {"Idempotency-Key": "k"}], ids=["marked", "key"]
)
async def test_a_retry_of_the_last_answer_that_fits_gets_that_answer(make_bench, monkeypatch, header):
    monkeypatch.setattr(store, "MAX_RESPONSES", 1)
    bench = await make_bench(["hello"])
    grant = await bench.open()
    body = {"model": "fake", "input": "go"}
    status, one = await post(bench, grant, body, **{"Idempotency-Key": "k"})
    again_status, again = await post(bench, grant, body, **header)
    assert (status, again_status, again["id"]) == (200, 200, one["id"])
    assert len(await bench.calls()) == 1 and (await post(bench, grant, body))[0] == 400
