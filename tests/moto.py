"""Amazon's services on this machine, as moto's server has them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from eventlib.ground.object_store import ObjectStore
from tests.ports import free_port


def on_this_machine(url: str) -> dict[str, str]:
    """Return the variables with which the SDK's chain finds a server and nothing else."""
    nowhere = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/nowhere")
    credentials = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret"}
    return {
        **nowhere,
        **credentials,
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def running_moto(directory: Path, port: int | None = None, **settings: str) -> Iterator[str]:
    """Run a server of its own, and give its URL."""
    port = port or free_port()
    with (directory / "moto.log").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(port)],
            env={**os.environ, **settings}, stdout=out, stderr=out,
        )  # fmt: skip
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while not _answers(url):
            assert process.poll() is None, (directory / "moto.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url + "/moto-api/data.json").status_code == 200
    except httpx.TransportError:
        return False


def new_bucket(url: str, patch: pytest.MonkeyPatch) -> ObjectStore:
    """Return an empty directory of a bucket of its own, and let all clients find the server."""
    for name, value in on_this_machine(url).items():
        patch.setenv(name, value)
    store = ObjectStore(f"s3a://bucket-{token_hex(4)}/some/lake")
    where = {"LocationConstraint": on_this_machine(url)["AWS_REGION"]}
    import boto3

    boto3.client("s3", region_name=where["LocationConstraint"]).create_bucket(
        Bucket=store.bucket, CreateBucketConfiguration=where
    )
    return store
