"""With a model, a certification also says whether its groups would give a gradient."""

from __future__ import annotations

import json
import re
from collections import Counter

from castform.certify.certification import CertifyOptions
from castform.certify.certify import certify
from castform.cli.main import main
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


def test_the_command_shows_the_forecast_as_tables_and_commands_that_show_findings_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    asked = Counter()

    def script(request):
        a, b = map(int, re.findall(r"\d+", request.messages[-1]["content"]))
        asked[a, b] += 1
        return f"<answer>{a + b + asked[a, b] % 2}</answer>"

    endpoint = ScriptedEndpoint(script)
    grant = endpoint.add_session("all-1")
    monkeypatch.setenv("THE_KEY", grant.api_key)
    model = ["-m", "m", "--base-url", grant.base_url, "--api-key-env", "THE_KEY", "--temperature", "0.5"]
    words = ["env", "certify", "arith/add", "--examples", "4", "--samples", "4", *model]
    try:
        code = main([*words, "--set", "rl.groups_per_step=3"])
        shown, _ = capsys.readouterr()
        assert main([*words, "--json"]) == 0
        data = json.loads(capsys.readouterr()[0])
    finally:
        endpoint.close()
    assert code == 0
    assert re.search(r"^effective +4 +1\.000 +0\.510 to 1\.000 ", shown, re.MULTILINE)
    assert re.search(r"^4 +1\.000 +0\.510 to 1\.000 +\d+ +100%", shown, re.MULTILINE), shown
    assert "a step has 3 groups" in shown
    assert data["forecast"]["useful_tokens_per_step"].keys() == {"2", "3", "4"}
    again = {f["reproduce"] for f in data["findings"] if f["check"] == "forecast" and f["reproduce"]}
    [command] = {re.sub(r" --example \S+", "", line) for line in again}
    assert command == (
        f"castform env certify arith/add --only forecast --examples 4 -m m --base-url {grant.base_url} "
        "--api-key-env THE_KEY --temperature 0.5 --samples 4"
    )
    assert grant.api_key not in json.dumps(data)
