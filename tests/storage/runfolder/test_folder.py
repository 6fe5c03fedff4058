"""The directory beside a cube."""

import os
import re
from pathlib import Path

import pytest
from checkout import ROOT

from sweep_clustering.storage.runfolder import folder
from sweep_clustering.storage.runfolder.folder import GenerationFolder, RunFolder
from sweep_clustering.sweeps.errors import InputError


def test_it_is_its_owners_alone_and_where_nobody_else_may_replace_it(tmp_path: Path) -> None:
    assert RunFolder(Path("results/v1.2.zarr")).path == Path("results/v1.2.run")
    run = RunFolder(tmp_path / "results" / "uci.zarr")
    for mode in (0o755, 0o700):
        assert run.make().stat().st_mode & 0o777 == 0o700
        run.path.chmod(mode)
    (tmp_path / "uci.run").write_text("")
    with pytest.raises(InputError, match=r"uci\.run: found a file"):
        RunFolder(tmp_path / "uci.zarr").make()
    run.path.parent.chmod(0o777)
    with pytest.raises(InputError, match=r"results: found .* may replace folders .mode 0777"):
        run.make()
    run.path.parent.chmod(0o1777)
    run.make()


def test_the_last_run_is_the_last_that_had_a_head(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    assert run.generations() == []
    assert not run.last_run.head.exists()
    run.make()
    for number in (2, 10, 9):
        GenerationFolder(run, number).path.mkdir()
    (run.path / "generation.x").mkdir()
    assert [generation.number for generation in run.generations()] == [2, 9, 10]
    assert not run.last_run.head.exists()
    for number in (2, 9):
        GenerationFolder(run, number).head.write_text("")
    assert run.last_run.number == 9


def test_a_folder_of_format_version_1_is_said(tmp_path: Path) -> None:
    for name in ("journal", "head.json", "pilot.json"):
        run = RunFolder(tmp_path / f"{name}.zarr")
        (run.make() / name).write_text("")
        with pytest.raises(InputError, match=f"{name} of format version 1, expected .* of format version 2"):
            run.make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("planted", ["", "head.sh", "generation.1", "generation.1/journal"])
def test_what_another_user_has_planted_is_refused_even_by_root(tmp_path: Path, planted: str) -> None:
    run = RunFolder(tmp_path / "tiny.zarr")
    path = run.make() / planted
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text("")
    os.chown(path, 54321, -1)
    with pytest.raises(InputError) as caught:
        run.make()
    (problem,) = caught.value.problems
    assert problem.where == str(path)
    assert problem.value == "a file or directory of user 54321"


def test_a_file_of_the_run_is_named_here_and_nowhere_else() -> None:
    run = RunFolder(Path("a.zarr"))
    files = [*vars(run).items(), *vars(GenerationFolder(run, 1)).items()]
    names = {file.name for key, file in files if isinstance(file, Path) and key not in ("cube", "path")}
    assert len(names) == 18
    # one with an ending anywhere, `log` and the like where a path is made
    words = "|".join(rf'{"" if "." in name else "/ "}"{re.escape(name)}"' for name in names)
    paths = [path for package in ("pipeline", "storage", "sweeps") for path in (ROOT / package).rglob("*.py")]
    for path in set(paths) - {Path(folder.__file__).resolve()}:
        assert re.findall(words, path.read_text(encoding="utf-8")) == [], path
