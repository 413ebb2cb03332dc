"""The settings EVENTLIB_PERSONAL_…: where the keys of personal data are, and what opens them."""

from typing import Annotated

from pydantic import Field, SecretStr

from eventlib.config.variables import Variables
from eventlib.log.url import no_userinfo


class PersonalOptions(Variables):
    """Where the keys of personal fields are; needed by applications that have such fields, and by no others."""

    personal_master: Annotated[
        str | None,
        no_userinfo("set EVENTLIB_PERSONAL_VAULT_TOKEN"),
        Field(description="the master key: file:PATH, or https://HOST:PORT/transit/KEY of Vault's transit engine"),
    ] = None
    personal_keys: Annotated[
        str | None,
        Field(
            description="the subjects' keys: sqlite:///PATH; unset: beside an SQLite log, in its file's name + .keys"
        ),
    ] = None
    personal_pseudonyms: Annotated[
        str | None,
        Field(
            description="a file with the key of pseudonyms, such as `customer_hash`; unset: it follows from the installation's key, and without one they are plain hashes"
        ),
    ] = None
    personal_vault_token: Annotated[SecretStr | None, Field(description="the token for Vault")] = None
