"""What a plugin's metadata has to say, before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from castform import __version__
from castform.authoring.names import PREFIX
from castform.authoring.new import castform_range
from castform.authoring.project import Project
from castform.authoring.report import CheckRow, fails, passes
from castform.plugins.catalog import CORE
from castform.plugins.names import is_name, normalize_name
from castform.plugins.specs import MAX_SUMMARY

_OTHER_PREFIX = re.compile(r"castform-[a-z0-9]+-.+")
_LOWER_BOUNDS = (">=", ">", "==", "~=", "===")


def check_metadata(project: Project) -> Iterator[CheckRow]:
    """Yield the rows for name, requirement on castform, description, readme and license."""
    yield _check_name(project)
    yield _check_requirement(project)
    yield _check_description(project)
    yield _check_readme(project)
    yield _check_license(project)


def _check_name(project: Project) -> CheckRow:
    name = normalize_name(project.name)
    wrong = [plugin for plugin in project.plugins if not is_name(plugin)]
    if wrong:
        return fails("name", f"{wrong[0]!r} is no usable plugin name", hint="letters, digits, '-', '_', '.'")
    if not _OTHER_PREFIX.fullmatch(name):
        wanted = f"{PREFIX}{normalize_name(next(iter(project.plugins)))}"
        return fails("name", f"the distribution is called {project.name!r}", hint=f'name = "{wanted}"')
    if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in map(normalize_name, project.plugins):
        plugins = ", ".join(map(repr, project.plugins))
        return fails(
            "name",
            f"{project.name} brings the plugin {plugins}, which nobody would look for under that name",
            hint=f"call the entry point {name.removeprefix(PREFIX)!r}, or the distribution after the plugin",
        )
    return passes("name", project.name)


def _check_requirement(project: Project) -> CheckRow:
    check = "requires castform"
    line = f'dependencies = ["castform{castform_range()}"]'
    if "dependencies" in (project.table.get("dynamic") or ()):
        return passes(check, "dynamic dependencies: the wheel's are installed")
    for text in project.table.get("dependencies") or ():
        try:
            requirement = Requirement(str(text))
        except InvalidRequirement as error:
            return fails(check, f"{text!r} is no requirement: {error}")
        if normalize_name(requirement.name) != CORE:
            continue
        if not any(specifier.operator in _LOWER_BOUNDS for specifier in requirement.specifier):
            return fails(check, f"{text!r} names no oldest version", hint=line)
        if not requirement.specifier.contains(__version__, prereleases=True):
            return fails(check, f"{text!r} does not hold for this castform, {__version__}", hint=line)
        return passes(check, str(requirement.specifier))
    return fails(check, "it does not depend on castform", hint=line)


def _check_description(project: Project) -> CheckRow:
    text = project.table.get("description")
    if not isinstance(text, str) or not text.strip() or "\n" in text.strip():
        return fails(
            "description", "there is none in one line", hint="`castform env list` shows description to people"
        )
    if len(text) > MAX_SUMMARY:
        return fails("description", f"{len(text)} characters, and a listing shows {MAX_SUMMARY}")
    return passes("description", text)


def _check_readme(project: Project) -> CheckRow:
    if "readme" in (project.table.get("dynamic") or ()):
        return passes("readme", "dynamic")
    readme = project.table.get("readme")
    if isinstance(readme, dict):
        readme = readme.get("file") or ("(text)" if readme.get("text") else None)
    if not isinstance(readme, str):
        return fails("readme", "[project] names none", hint='readme = "README.md"')
    place = project.folder / readme
    if readme != "(text)" and (not place.is_file() or not place.read_bytes().strip()):
        return fails("readme", f"{readme} is not there, or empty", hint="say what is asked and what is paid")
    return passes("readme", readme)


def _check_license(project: Project) -> CheckRow:
    found = project.table.get("license")
    if isinstance(found, dict):
        found = found.get("text") or found.get("file")
    if not found and not project.table.get("license-files"):
        return fails("license", "[project] names none", hint='license = "Apache-2.0"')
    return passes("license", str(found or project.table.get("license-files")).splitlines()[0])
