"""What a registry refuses, each with the code that its clients know. Source: Confluent Schema Registry API reference."""

from dataclasses import dataclass

from eventlib.errors import TerminalError


@dataclass
class Refused(TerminalError):
    """A request that is refused: HTTP's status, the registry's own code, and a sentence."""

    status: int
    code: int
    message: str

    def __str__(self) -> str:
        return self.message


NO_WRITER = 50004
"""The code of a refusal that is over within seconds: no instance may write just now, or this one is still starting."""

LACKING = frozenset({40401, 40402, 40403, 40408, 40409, 42201})
"""Codes for something that is not there: a subject, a version, a schema, a setting, what a reference leads to."""


def no_subject(subject: str) -> Refused:
    """Nothing was registered under the subject."""
    return Refused(404, 40401, f"Subject '{subject}' not found.")


def no_version(version: int | str) -> Refused:
    """The subject has no such version."""
    return Refused(404, 40402, f"Version {version} not found.")


def no_schema(schema_id: int | None = None) -> Refused:
    """There is no such schema."""
    return Refused(404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_deleted(subject: str) -> Refused:
    """The subject is deleted already."""
    return Refused(404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> Refused:
    """The subject is not deleted yet, so it cannot go for good."""
    return Refused(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted(subject: str, version: int) -> Refused:
    """The version is deleted already."""
    text = f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    return Refused(404, 40406, text)


def version_not_deleted(subject: str, version: int) -> Refused:
    """The version is not deleted yet, so it cannot go for good."""
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Refused(404, 40407, text)


def no_level(subject: str) -> Refused:
    """The subject has no compatibility level of its own."""
    return Refused(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> Refused:
    """The subject has no mode of its own."""
    return Refused(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(message: str) -> Refused:
    """The schema breaks the subject's compatibility level."""
    return Refused(409, 409, f"Schema being registered is incompatible with an earlier schema; details: {message}")


def invalid_schema(reason: str) -> Refused:
    """The text is no schema."""
    return Refused(422, 42201, f"Invalid schema: {reason}")


def invalid_version(version: str) -> Refused:
    """The version is neither a number nor `latest`."""
    text = 'is not a valid version id. Allowed values are between [1, 2^31-1] and the string "latest"'
    return Refused(422, 42202, f"The specified version '{version[:80]}' {text}")


def invalid_level(levels: str) -> Refused:
    """The compatibility level is none."""
    return Refused(422, 42203, f"Invalid compatibility level. Valid values are {levels}")


def invalid_mode(modes: str) -> Refused:
    """The mode is none."""
    return Refused(422, 42204, f"Invalid mode. Valid values are {modes}")


def not_permitted(reason: str) -> Refused:
    """The mode does not permit it."""
    return Refused(422, 42205, reason)


def referenced(what: str, ids: list[int]) -> Refused:
    """Other schemas refer to it."""
    return Refused(422, 42206, f"One or more references exist to the schema {what}: ids {ids[:20]}")


def id_taken(schema_id: int) -> Refused:
    """The id belongs to another schema."""
    return Refused(422, 42207, f"Overwrite new schema with id {schema_id} is not permitted.")


def invalid_subject(subject: str, reason: str) -> Refused:
    """The subject's name cannot be one."""
    return Refused(422, 42208, f"The specified subject '{subject[:80]}' is not a valid subject: {reason}")


def too_complex(pairs: int, seconds: float) -> Refused:
    """The comparison with the earlier versions takes more than it may."""
    remedy = "use fewer alternatives in anyOf and oneOf, or split the schema into subjects that it refers to"
    text = (
        f"the comparison with the earlier versions takes more than {pairs:,} pairs of types, or {seconds:g} s: {remedy}"
    )
    return Refused(422, 42290, f"Schema too complex: {text}")


def stopping() -> Refused:
    """An instance is stopping."""
    return Refused(503, NO_WRITER, "This instance is stopping, and has not compared the schema: ask again")


def changed_meanwhile(subject: str) -> Refused:
    """The subject has changed each time while the schema was compared."""
    return Refused(503, NO_WRITER, f"Subject '{subject}' changes all the time: register the schema again")


def too_large(most: int) -> Refused:
    """The schema does not fit into a record of the log."""
    return Refused(422, 42209, f"The schema is too large: with its references and escapes it may have {most:,} bytes")


def store_failed(reason: str) -> Refused:
    """The log could not be written or read; whether it was written is not known."""
    return Refused(500, 50001, f"Error in the backend data store: {reason}")


def forwarding_failed(reason: str) -> Refused:
    """The instance that may write could not be asked; whether it has acted is not known."""
    return Refused(500, 50003, f"Error while forwarding the request to the primary: {reason}")


def no_writer() -> Refused:
    """No instance may write just now."""
    return Refused(500, NO_WRITER, "No instance may write just now; one takes over within seconds: try again")
