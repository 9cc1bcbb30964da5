"""The checkout that runs: which commit, and whether it differs from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernels import checkout


def git(root: Path, *words: str) -> str:
    own = ["-c", "user.name=someone", "-c", "user.email=someone@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(root), *own, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a checkout of one commit."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "checkout.py").write_text("one = 1\n")
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_a_clean_checkout_is_its_commit(root: Path) -> None:
    assert checkout.state(root) == (git(root, "rev-parse", "HEAD"), False)


def test_a_change_of_what_git_tracks_is_told(root: Path) -> None:
    (root / "kernels" / "checkout.py").write_text("one = 2\n")
    assert checkout.state(root) == (git(root, "rev-parse", "HEAD"), True)


def test_a_new_file_counts_where_it_would_be_run_and_not_beside(root: Path) -> None:
    (root / "report.html").write_text("a report")
    (root / "my_kernel.py").write_text("KERNEL = None")
    (root / "kernels" / "__pycache__").mkdir()
    (root / "kernels" / "__pycache__" / "one.pyc").write_text("")
    assert checkout.state(root)[1] is False
    (root / "kernels" / "new.py").write_text("two = 2\n")
    assert checkout.state(root)[1] is True


def test_an_environment_within_another_projects_checkout_has_no_commit(root: Path) -> None:
    inner = root / ".venv" / "site-packages"
    (inner / "kernels").mkdir(parents=True)
    (inner / "kernels" / "checkout.py").write_text("one = 1\n")
    assert checkout.state(inner) == (None, False)


def test_a_machine_without_git_has_no_commit(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout.state(root) == (None, False)
