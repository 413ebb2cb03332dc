"""A master key in AWS KMS: it wraps the key of a key store, and never leaves KMS."""

from collections.abc import Callable
from typing import Any

import boto3
from botocore import exceptions as aws
from botocore.config import Config

from eventlib.errors import LogUnavailable, WiringError
from eventlib.ground.plaintext import warn_of_plaintext
from eventlib.personal.master import MasterKey

_CONTEXT = {"eventlib": "personal-keys"}
"""The encryption context: KMS binds the ciphertext to it, writes it to CloudTrail, and can make it a condition of rights."""
_CONFIG = Config(connect_timeout=5, read_timeout=10)
_MAY_PASS = {
    "DependencyTimeoutException",
    "KMSInternalException",
    "KeyUnavailableException",
    "LimitExceededException",
    "ThrottlingException",
}
_OTHER_KEY = {"IncorrectKeyException", "InvalidCiphertextException"}
_SERVER_ERROR = 500


class KmsMaster(MasterKey):
    """A symmetric key of AWS KMS, named by its ARN, its id, or `alias/NAME`.

    Credentials, region and endpoint come from the SDK's own chain (AWS_PROFILE, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, a role of the
    machine); an ARN names its region itself. The caller needs kms:Encrypt once, for a new store, and kms:Decrypt.
    Raises: WiringError when the chain gives no credentials or no region.
    """

    def __init__(self, key: str) -> None:
        if not key:
            raise WiringError("the master key aws-kms: names no key: write aws-kms:ARN, or aws-kms:alias/NAME")
        self._key = key
        self._client = self._answer(lambda: boto3.Session().client("kms", region_name=_region_of(key), config=_CONFIG))
        remedy = "give an https:// URL in AWS_ENDPOINT_URL"
        warn_of_plaintext("the key of the personal keys", self._client.meta.endpoint_url, remedy)

    def wrap(self, key: bytes) -> bytes:
        """See `MasterKey.wrap`."""
        found = self._answer(
            lambda: self._client.encrypt(KeyId=self._key, Plaintext=key, EncryptionContext=_CONTEXT)["CiphertextBlob"]
        )
        return bytes(found)

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `MasterKey.unwrap`."""
        found = self._answer(
            lambda: self._client.decrypt(KeyId=self._key, CiphertextBlob=wrapped, EncryptionContext=_CONTEXT)[
                "Plaintext"
            ]
        )
        return bytes(found)

    def _answer(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except aws.ClientError as error:
            raise self._refusal(error) from error
        except (aws.ConnectionError, aws.HTTPClientError, aws.CredentialRetrievalError) as error:
            raise LogUnavailable(f"AWS KMS does not answer for {self._key}: {error}") from error
        except aws.NoRegionError as error:
            raise WiringError(f"{self._key} names no region: give the key's ARN, or set AWS_DEFAULT_REGION") from error
        except aws.BotoCoreError as error:
            raise WiringError(
                f"AWS KMS cannot be asked for {self._key}: {error}; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or give this machine a role"
            ) from error

    def _refusal(self, error: aws.ClientError) -> LogUnavailable | WiringError:
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _MAY_PASS or status >= _SERVER_ERROR:
            return LogUnavailable(f"AWS KMS cannot answer for {self._key} now: {error}")
        if code in _OTHER_KEY:
            return WiringError(f"{self._key} is not the master key that these personal keys were made with ({code})")
        return WiringError(
            f"AWS KMS refuses {self._key} ({error}): check that it is a symmetric key that is enabled, and that its policy "
            "allows kms:Encrypt and kms:Decrypt to these credentials"
        )


def _region_of(key: str) -> str | None:
    """Return the region in a key's ARN, arn:PARTITION:kms:REGION:ACCOUNT:NAME; None for other names."""
    parts = key.split(":")
    return parts[3] if parts[0] == "arn" and len(parts) > 3 else None  # noqa: PLR2004  where the region is
