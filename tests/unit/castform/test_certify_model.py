"""With a model, a certification also says whether its groups would give a gradient."""

from __future__ import annotations

from castform.certify.certification import CertifyOptions
from castform.certify.certify import certify
from castform.plugins import load_environment
from castform.scripted_endpoint import ScriptedEndpoint


async def test_a_models_groups_are_forecast_and_nothing_is_left_unchecked():
    loaded = load_environment("arith/add")

    def script(request):
        a, b = (
            int(word.strip("?"))
            for word in request.messages[-1]["content"].split()
            if word.strip("?").isdigit()
        )
        return f"<answer>{a + b + int(request.session_id.rpartition('-')[2]) % 2}</answer>"

    endpoint = ScriptedEndpoint(script, model="half-right")
    try:
        found = await certify(loaded, endpoint=endpoint, options=CertifyOptions(examples=4, samples=4))
    finally:
        await endpoint.aclose()
        await loaded.environment.aclose()
    assert found.passed
    assert (found.model, found.result.pass_at_k(1)) == ("half-right", 0.5)
    assert found.forecast["kinds"]["effective"] == 4
    assert not [f for f in found.findings if f.level == "unchecked"], found.findings
    assert {f.check for f in found.findings if f.code == "no_signal"} == set()
    assert found.as_dict()["forecast"]["samples"] == 4
