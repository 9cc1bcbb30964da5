"""A deployment's settings from Prefect: a variable for the root, a secret block for what boto3 needs."""

from __future__ import annotations

import os

import pytest
from prefect import flow, runtime
from prefect.blocks.system import Secret
from prefect.variables import Variable

from flows.deployment import RESULTS, STORAGE, settle
from kernels.errors import UsageError

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}


@pytest.fixture
def deployed(shared_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process take itself for a deployment's; its variables are as they were afterwards."""
    monkeypatch.setattr(runtime.deployment, "id", "00000000-0000-7000-8000-000000000000", raising=False)
    for name in (*KEYS, "JITMATRIX_RESULTS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_without_a_deployment_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.delenv("JITMATRIX_RESULTS", raising=False)
    assert settle(None) == "results"


def test_a_deployment_without_any_of_it_is_as_its_worker(deployed: None) -> None:
    assert settle(None) == "results"


def test_the_root_and_the_keys_come_from_prefect_and_what_is_set_stays(
    deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Variable.set(RESULTS, "s3://bucket/prefix", overwrite=True)
    Secret(value=dict(KEYS)).save(STORAGE, overwrite=True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")

    @flow
    def within(results: str | None) -> str:
        return settle(results)

    try:
        assert within(None) == "s3://bucket/prefix"
        assert within("elsewhere") == "elsewhere"
        monkeypatch.setenv("JITMATRIX_RESULTS", "here")
        assert within(None) == "here"
    finally:
        Variable.unset(RESULTS)
        Secret.delete(STORAGE)
    assert os.environ["AWS_ACCESS_KEY_ID"] == "mine"
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "hidden"


@pytest.mark.parametrize("held", ["no json", '["a"]', '{"PATH": "/nowhere"}'])
def test_a_block_of_another_form_is_one_line_that_says_nothing_of_what_it_holds(deployed: None, held: str) -> None:
    Secret(value=held).save(STORAGE, overwrite=True)
    with pytest.raises(UsageError, match="give a JSON object of AWS_ variables") as error:
        settle(None)
    assert "nowhere" not in str(error.value)
    assert os.environ.get("PATH") != "/nowhere"
