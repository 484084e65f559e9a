"""How long `castform env list` takes with 200 plugins installed, and that it imports none.

    python bench/plugin_listing.py [--plugins 200] [--runs 15] [--json]

Every run is a fresh process. Beside it, in the same turns: an empty Python, and the
standard library's `importlib.metadata.entry_points()` with the summaries read, which is
what a listing costs without a reader of its own. Aim: under 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AIM_MS = 150
STANDARD_LIBRARY = """
import importlib.metadata
for point in importlib.metadata.entry_points(group="castform"):
    print(point.name, point.dist.metadata["Summary"], point.dist.name, point.dist.version)
"""
MODULE = """
import os
import pathlib

(pathlib.Path(os.environ["IMPORT_MARKS"]) / __name__).touch()

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments():
    return EnvironmentSpec(name="default", summary="Made up", factory="nowhere:make")
"""


def write_plugin(site: Path, number: int) -> None:
    """Write one installed distribution, laid out as pip does, with a module that marks its import."""
    name = f"made-up-{number:03}"
    package = f"castform_env_made_up_{number:03}"
    (site / package).mkdir()
    (site / package / "__init__.py").write_text("")
    (site / package / "plugin.py").write_text(MODULE)
    info = site / f"{package}-1.0.{number}.dist-info"
    info.mkdir()
    headers = [
        "Metadata-Version: 2.4",
        f"Name: castform-env-{name}",
        f"Version: 1.0.{number}",
        f"Summary: Made-up plugin number {number}",
        "Requires-Dist: castform>=0.1",
    ]
    (info / "METADATA").write_text("\n".join(headers) + "\n\n" + "A long description.\n" * 200)
    (info / "entry_points.txt").write_text(f"[castform]\n{name} = {package}.plugin\n")
    (info / "RECORD").write_text("")


def time_run(command: list[str], environ: dict[str, str]) -> tuple[float, float, str]:
    """Run a fresh process; return its wall and CPU time in ms and its stdout."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1000, cpu * 1000, done.stdout


def measure(plugins: int, runs: int) -> dict[str, object]:
    """Return medians in ms, the ratio to the standard library, and how many plugins were imported."""
    with tempfile.TemporaryDirectory() as folder:
        site, marks = Path(folder) / "site", Path(folder) / "marks"
        site.mkdir()
        marks.mkdir()
        for number in range(plugins):
            write_plugin(site, number)
        environ = {
            **os.environ,
            "PYTHONPATH": str(site),
            "IMPORT_MARKS": str(marks),
            "CASTFORM_HOME": str(Path(folder) / "home"),  # certificates of yours would be read too
        }
        environ.pop("CASTFORM_PLUGINS", None)
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every run would compile what was edited
        script = Path(sys.executable).with_name("castform")
        castform = [str(script)] if script.exists() else [sys.executable, "-m", "castform"]
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "standard library": [sys.executable, "-c", STANDARD_LIBRARY],
            "castform --help": [*castform, "--help"],
            "castform env list": [*castform, "env", "list"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        cpu_times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs + 1):  # the first turn writes the byte code and warms the file cache
            for name, command in commands.items():
                wall, cpu, out = time_run(command, environ)
                times[name].append(wall)
                cpu_times[name].append(cpu)
                if name == "castform env list" and out.count("made-up-") < plugins:
                    raise SystemExit(f"only {out.count('made-up-')} of {plugins} plugins were listed:\n{out}")
        imported = len(list(marks.iterdir()))
        time_run([*castform, "env", "list", "made-up-000"], environ)
        if len(list(marks.iterdir())) != imported + 1:
            raise SystemExit("the mark of an import does not work, so nothing was shown")
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    return {
        "plugins": plugins,
        "runs": runs,
        "imported": imported,
        "median_ms": {name: round(value, 1) for name, value in medians.items()},
        "median_cpu_ms": {name: round(statistics.median(v[1:]), 1) for name, v in cpu_times.items()},
        "fastest_ms": {name: round(min(values[1:]), 1) for name, values in times.items()},
        "ratio_to_standard_library": round(medians["castform env list"] / medians["standard library"], 2),
        "aim_ms": AIM_MS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plugins", type=int, default=200)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.plugins, args.runs)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{'':<20}  {'median ms':>9}  {'fastest ms':>10}  {'CPU ms':>6}")
        for name, value in result["median_ms"].items():
            print(
                f"{name:<20}  {value:>9}  {result['fastest_ms'][name]:>10}  {result['median_cpu_ms'][name]:>6}"
            )
        print(
            f"{result['plugins']} plugins, {result['runs']} fresh processes each, {result['imported']} plugins "
            f"imported; castform env list takes {result['ratio_to_standard_library']} of the standard library's time"
        )
    good = result["imported"] == 0 and result["median_ms"]["castform env list"] < AIM_MS
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
