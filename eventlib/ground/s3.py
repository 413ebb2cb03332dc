"""A client of an S3 store: conditional writes, and errors that say what to do."""

import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore import exceptions as aws
from botocore.config import Config

from eventlib.errors import LogDenied, LogUnavailable, WiringError

T = TypeVar("T")

_NOT_THERE = {"NoSuchKey", "404"}
_CHANGED = {"PreconditionFailed", "412"}
_CONFLICT = {"ConditionalRequestConflict", "409"}
_DENIED = {"AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "AllAccessDisabled"}
_SERVER_ERROR = 500
_AT_ONCE = 1_000  # so many keys a request to delete may name


def endpoint() -> str | None:
    """Return the store's URL where it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


class Client:
    """One bucket; `where` is for messages."""

    def __init__(self, bucket: str, where: str) -> None:
        self._bucket, self._where = bucket, where
        style = "path" if endpoint() else "auto"  # few other stores have a host name for each bucket
        retries: Any = {"mode": "standard", "max_attempts": 4}
        config = Config(connect_timeout=5, read_timeout=60, retries=retries, s3={"addressing_style": style})
        region = os.environ.get("AWS_REGION")  # which the SDK for Python alone does not know
        self._s3 = self._answer(lambda: boto3.Session().client("s3", config=config, region_name=region))

    def get(self, key: str, first: int | None = None, last: int | None = None) -> tuple[bytes, str]:
        """Return an object's content, or its bytes from `first` to `last`, and its tag. Raises: FileNotFoundError."""
        part = {} if first is None else {"Range": f"bytes={first}-{last}"}

        def read() -> tuple[bytes, str]:
            found = self._s3.get_object(Bucket=self._bucket, Key=key, **part)
            with found["Body"] as body:
                return body.read(), found["ETag"]

        return self._answer(read)

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        self._answer(lambda: self._s3.put_object(Bucket=self._bucket, Key=key, Body=content))

    def replace(self, key: str, content: bytes, tag: str | None) -> str | None:
        """Write an object if it is as a tag says, or not there; return its new tag, None when it is otherwise.

        An answer may be lost, and the SDK tries again, which the write itself makes fail: what is there tells.
        """
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            found = self._s3.put_object(Bucket=self._bucket, Key=key, Body=content, **condition)
        except aws.ClientError as error:
            if _code(error) not in _CHANGED | _CONFLICT | _NOT_THERE and _status(error) < _SERVER_ERROR:
                raise self._refusal(error) from error
        except aws.BotoCoreError as error:
            self._refuse_unsendable(error)
        else:
            return str(found["ETag"])
        try:
            there, now = self.get(key)
        except FileNotFoundError:
            there, now = b"", None
        if there == content:
            return now
        if now == tag:
            raise LogUnavailable(f"{self._where} did not take a write of {key}: try again")
        return None

    def upload(self, path: Path, key: str) -> None:
        """Write a file as an object."""
        with path.open("rb") as file:
            self._answer(lambda: self._s3.put_object(Bucket=self._bucket, Key=key, Body=file))

    def listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the keys that begin with a prefix, and the sizes of their objects."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        for page in self._answer(lambda: list(pages)):
            yield from ((each["Key"], each["Size"]) for each in page.get("Contents", ()))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        for first in range(0, len(keys), _AT_ONCE):
            named = [{"Key": key} for key in keys[first : first + _AT_ONCE]]
            self._answer(lambda: self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": named, "Quiet": True}))  # noqa: B023  called at once

    def open(self, key: str) -> io.RawIOBase:
        """Open an object to read parts of it. Raises: FileNotFoundError."""
        head = self._answer(lambda: self._s3.head_object(Bucket=self._bucket, Key=key))
        return _Part(lambda first, last: self.get(key, first, last)[0], head["ContentLength"])

    def _answer(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except aws.ClientError as error:
            if _code(error) in _NOT_THERE:
                raise FileNotFoundError(f"{self._where}: {error}") from error
            raise self._refusal(error) from error
        except aws.BotoCoreError as error:
            self._refuse_unsendable(error)
            raise LogUnavailable(f"{self._where} does not answer: {error}") from error
        except ValueError as error:  # of the SDK, which has no error for it
            raise WiringError(f"{self._where}: {error}; check AWS_ENDPOINT_URL") from error

    def _refuse_unsendable(self, error: aws.BotoCoreError) -> None:
        """Raise WiringError if a request was not even sent."""
        if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError | aws.ProfileNotFound):
            raise WiringError(
                f"{self._where}: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role"
            ) from error
        if isinstance(error, aws.NoRegionError | aws.ParamValidationError | aws.InvalidRegionError):
            raise WiringError(f"{self._where}: {error}; check AWS_REGION and AWS_ENDPOINT_URL") from error

    def _refusal(self, error: aws.ClientError) -> LogUnavailable | LogDenied | WiringError:
        code = _code(error)
        if code == "NoSuchBucket":
            return WiringError(f"{self._where}: there is no bucket {self._bucket}: make it first")
        if code in _DENIED:
            return LogDenied(
                f"{self._where}: the store refuses these credentials ({code}); tables and archives need to list the bucket, and to "
                "get, put and delete its objects"
            )
        return LogUnavailable(f"{self._where} cannot answer now: {error}")


class _Part(io.RawIOBase):
    """An object as a file: each read asks for its bytes."""

    def __init__(self, get: Callable[[int, int], bytes], size: int) -> None:
        self._get, self._size, self._at = get, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        content = self._get(self._at, self._at + wanted - 1)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _code(error: aws.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: aws.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
