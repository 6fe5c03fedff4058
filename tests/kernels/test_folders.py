"""Folders that nobody else can change or replace: every step of the way to them is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes.other_user import SOMEBODY, STRANGER, do_as, needs_root, open_folder, user

from kernels.folders import OwnFolder, open_trusted


@pytest.fixture
def top() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def trusts(path: Path) -> bool:
    """Whether `path` is opened, and then is that folder."""
    try:
        descriptor = open_trusted(path)
    except PermissionError:
        return False
    try:
        assert os.path.samestat(os.fstat(descriptor), path.stat())
    finally:
        os.close(descriptor)
    return True


def test_missing_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    assert trusts(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700] * 2
    assert trusts(tmp_path / "a" / ".." / "a" / "b")
    assert trusts(Path("/"))


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o2775])
def test_folder_on_the_way_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    with pytest.raises(
        PermissionError, match=rf"{above} belongs to user \d+ and group \d+, mode {mode:04o}"
    ) as found:
        open_trusted(above / "x" / "y")
    assert str(found.value).endswith(f"chmod {'go' if mode & 2 else 'g'}-w {above}")
    assert list(above.iterdir()) == []
    with pytest.raises(PermissionError):
        open_trusted(above)


def test_sticky_folder_may_be_passed_and_not_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert trusts(tmp_path / "own")
    assert not trusts(tmp_path)


def test_links_of_the_user_are_followed_step_by_step(tmp_path: Path) -> None:
    real = tmp_path / "data" / "real"
    real.mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(real)
    (tmp_path / "relative").symlink_to("data/../data/real")
    (tmp_path / "chain").symlink_to("absolute")
    for name in ("absolute", "relative", "chain"):
        assert trusts(tmp_path / name / name)
        assert (real / name).is_dir()
    (tmp_path / "data").chmod(0o777)
    for name in ("absolute", "relative", "chain"):
        assert not trusts(tmp_path / name / name)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        open_trusted(tmp_path / "round" / "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        open_trusted(tmp_path / "file" / "x")


@needs_root
@pytest.mark.parametrize("victim", [0, SOMEBODY])
@pytest.mark.parametrize(
    "attack",
    [
        "mkdir -m 700 $1/x",
        "mkdir -m 1777 $1/x",
        "mkdir -m 755 $1/real; ln -s $1/real $1/x",
        "ln -s /usr/lib $1/x",
        "ln -s $2 $1/x",
    ],
)
def test_what_another_user_made_is_refused(top: Path, victim: int, attack: str) -> None:
    """In a temporary folder, where everybody may make entries but nobody rename those of others."""
    shared, own = top / "shared", top / "own"
    shared.mkdir()
    shared.chmod(0o1777)
    own.mkdir()
    os.chown(own, victim, victim)
    do_as(STRANGER, attack, shared, own)
    with user(victim):
        assert not trusts(shared / "x" / "y")
        assert trusts(shared / "mine" / "y")
        assert trusts(own / "y")


@needs_root
def test_links_of_root_are_followed(top: Path) -> None:
    """As `/home -> /data/home`, for every user."""
    home = top / "data" / "home" / "somebody"
    home.mkdir(parents=True)
    os.chown(home, SOMEBODY, SOMEBODY)
    (top / "home").symlink_to("data/home")
    (top / "tmp").symlink_to(top / "data")
    # Folders on the way need not be readable.
    (top / "data").chmod(0o711)
    with user(SOMEBODY):
        assert trusts(top / "home" / "somebody" / ".cache")
        assert trusts(top / "tmp" / "home" / "somebody" / ".cache")
    assert not trusts(top / "data" / "home" / "somebody" / ".cache")
    os.chown(top / "home", STRANGER, STRANGER, follow_symlinks=False)
    with user(SOMEBODY):
        assert not trusts(top / "home" / "somebody" / ".cache")


@pytest.fixture
def folder(tmp_path: Path) -> OwnFolder:
    return OwnFolder(tmp_path / "root", "leaf")


def test_files_of_the_user_alone_are_read(folder: OwnFolder) -> None:
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert list(folder.path.iterdir()) == []
    assert not folder.holds("x")
    assert folder.read("x") is None
    before = os.umask(0)
    try:
        folder.write("x", b"first")
        folder.write("x", b"second")
    finally:
        os.umask(before)
    assert folder.holds("x")
    assert folder.read("x") == b"second"
    assert [path.name for path in folder.path.iterdir()] == ["x"]
    assert (folder.path / "x").stat().st_mode & 0o777 == 0o600
    folder.remove("x")
    folder.remove("x")
    assert not folder.holds("x")


def link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", [link, pipe, directory, lambda path: path.chmod(0o620)])
def test_files_that_are_strange_are_not_read(folder: OwnFolder, change: Callable[[Path], None]) -> None:
    folder.write("x", b"content")
    change(folder.path / "x")
    assert not folder.holds("x")
    assert folder.read("x") is None
    with pytest.raises(OSError), folder.opened("x", os.O_RDONLY):  # noqa: PT011  # PermissionError, or what the system says
        pass


@needs_root
def test_files_of_others_are_not_read(folder: OwnFolder) -> None:
    folder.write("x", b"content")
    os.chown(folder.path / "x", STRANGER, STRANGER)
    assert not folder.holds("x")
    assert folder.read("x") is None
    with (
        pytest.raises(PermissionError, match=f"x belongs to user {STRANGER}"),
        folder.opened("x", os.O_RDONLY),
    ):
        pass


def test_path_that_is_swapped_later_leads_nowhere_else(folder: OwnFolder) -> None:
    folder.write("x", b"content")
    moved = folder.path.with_name("moved")
    folder.path.rename(moved)
    folder.path.mkdir(mode=0o700)
    (folder.path / "x").write_bytes(b"planted")
    assert folder.read("x") == b"content"
    folder.write("y", b"content")
    assert (moved / "y").exists()
    assert not (folder.path / "y").exists()


def test_folder_itself_is_no_link_and_closed_to_others(tmp_path: Path) -> None:
    leaf = tmp_path / "leaf"
    leaf.mkdir(mode=0o750)
    with pytest.raises(PermissionError, match=f"mode 0750: chmod 700 {leaf}"):
        OwnFolder(tmp_path, "leaf")
    leaf.rename(tmp_path / "real")
    leaf.symlink_to("real")
    with pytest.raises(PermissionError, match="is a link"):
        OwnFolder(tmp_path, "leaf")
    leaf.unlink()
    leaf.write_text("")
    with pytest.raises(NotADirectoryError):
        OwnFolder(tmp_path, "leaf")


def test_relative_path_is_walked_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can write to the working directory can replace what lies in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="mode 0777"):
        OwnFolder(Path("cache"), "kernels")
