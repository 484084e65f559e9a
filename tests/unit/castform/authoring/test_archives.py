"""What is read of a wheel and unpacked of an sdist, whoever packed it and whichever Python 3.11 it is."""

from __future__ import annotations

import io
import tarfile
from zipfile import ZipFile

import pytest

from castform.authoring.building import unpack_sdist
from castform.authoring.fresh_venv import read_requirements
from castform.authoring.project import read_project
from castform.errors import UsageError

METADATA = "Metadata-Version: 2.4\nName: {name}\nVersion: 1\nRequires-Dist: {requires}\n"


def test_a_wheel_that_vendors_distributions_requires_what_its_own_metadata_says(tmp_path):
    wheel = tmp_path / "castform_env_mine-1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for place, requires in (
            ("castform_env_mine/_vendor/other-1.dist-info/METADATA", "numpy"),
            ("castform_env_mine-1.dist-info/METADATA", 'networkx>=3; python_version >= "3"'),
        ):
            archive.writestr(place, METADATA.format(name="castform-env-mine", requires=requires))
    assert [str(requirement.name) for requirement in read_requirements(wheel)] == ["networkx"]


def test_an_sdist_is_unpacked_with_and_without_filters_in_tarfile(tmp_path, monkeypatch):
    sdist = tmp_path / "mine-1.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        entry = tarfile.TarInfo("mine-1/README.md")
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    assert (unpack_sdist(sdist, tmp_path / "a") / "README.md").read_text() == "hello"
    own = tarfile.TarFile.extractall

    def of_3_11_3(self, path=".", members=None, *, numeric_owner=False):
        own(self, path, members, numeric_owner=numeric_owner, filter="data")

    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.setattr(tarfile.TarFile, "extractall", of_3_11_3)
    folder = unpack_sdist(sdist, tmp_path / "b")
    assert folder == tmp_path / "b" / "mine-1" and (folder / "README.md").read_text() == "hello"


def test_a_project_without_a_plugin_is_told_the_line_that_makes_it_one(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "Castform_Env.my-task"\n')
    with pytest.raises(UsageError) as caught:
        read_project(tmp_path)
    assert caught.value.hint == (
        'a plugin says so with [project.entry-points.castform] and my-task = "castform_env_my_task.plugin"'
    )
