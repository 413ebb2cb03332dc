"""The settings EVENTLIB_PERSONAL_…: where the keys of personal data are, and what opens them."""

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, Field, SecretStr

from eventlib.ground.url import log_file, no_userinfo
from eventlib.ground.variables import Variables


def _place_of_keys(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"write postgresql://USER@HOST/DATABASE, or sqlite:///PATH ({error})") from error
    if log_file(url) is None and parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError("write postgresql://USER@HOST/DATABASE, or sqlite:///PATH")
    if parts.password is not None or {"password", "sslpassword"} & parse_qs(parts.query).keys():
        raise ValueError("a URL is shown in messages, so no password belongs there: set PGPASSFILE, or PGPASSWORD")
    return url


class PersonalOptions(Variables):
    """Where the keys of personal fields are; needed by applications that have such fields, and by no others."""

    personal_master: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_PERSONAL_VAULT_TOKEN"),
        Field(
            description="the master key: file:PATH, https://HOST:PORT/transit/KEY of Vault's transit engine, or aws-kms:KEY, an ARN or alias/NAME of AWS KMS"
        ),
    ] = None
    personal_keys: Annotated[
        str | None,
        AfterValidator(lambda url: url if url is None else _place_of_keys(url)),
        Field(
            description="the subjects' keys: postgresql://USER@HOST/DATABASE, or sqlite:///PATH; unset: beside an SQLite log, in its file's name + .keys"
        ),
    ] = None
    personal_pseudonyms: Annotated[
        str | None,
        Field(
            description="a file with the key of pseudonyms, such as `customer_hash`; unset: it follows from the installation's key, and without one they are plain hashes"
        ),
    ] = None
    personal_vault_token: Annotated[SecretStr | None, Field(description="the token for Vault")] = None
