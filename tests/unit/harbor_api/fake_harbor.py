"""Stands in for the `harbor` program: reads a job's config and does to each task what its fake.json says."""

import json
import os
import signal
import sys
import time
from pathlib import Path

config = json.loads(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
job = Path(config["jobs_dir"]) / config["job_name"]
job.mkdir()
seen = {
    "argv": sys.argv[1:],
    "env": dict(os.environ),
    "stdin": sys.stdin.read(),
    "mode": oct(Path(sys.argv[3]).stat().st_mode & 0o777) if sys.argv[2] == "--config" else None,
    "agents": config["agents"],
}
(job / "seen.json").write_text(json.dumps(seen))
terms = []
signal.signal(signal.SIGTERM, lambda *_: terms.append(1))

trials = []
for number, task in enumerate(config["tasks"]):
    script = json.loads((Path(task["path"]) / "fake.json").read_text())
    trial = job / f"trial-{number}"
    trial.mkdir()
    (trial / "config.json").write_text(json.dumps({"task": task}))
    trials.append((trial, script))


def write(trial, document):
    (trial / "result.json").write_text(json.dumps(document))


poison = len(trials) > 1 and any(script.get("poison") for _, script in trials)
for trial, script in trials:
    if poison or script.get("poison"):
        write(
            trial,
            {
                "exception_info": {
                    "exception_type": "CancelledError" if poison else "ValueError",
                    "exception_message": "allowlist",
                }
            },
        )
        continue
    if script.get("hangs"):
        Path(script["hangs"]).write_text(str(os.getpid()))
        while not terms or script.get("stubborn"):
            time.sleep(0.01)
        write(trial, {"exception_info": {"exception_type": "CancelledError"}})
        Path(script["hangs"]).write_text(f"terminated {len(terms)}")
        continue
    if "text" in script:
        (trial / "result.json").write_text(script["text"])
    elif "document" in script:
        write(trial, script["document"])
print("the end of the log")
sys.exit(1)
