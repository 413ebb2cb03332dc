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


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """One kind of refusal; called with what its sentence names, it is one."""

    status: int
    code: int
    sentence: str

    def __call__(self, *named: object) -> Refused:
        """Return the refusal."""
        return Refused(self.status, self.code, self.sentence.format(*named))


NO_WRITER = 50004
"""The code of a refusal that is over within seconds: no instance may write just now, or this one is still starting."""

LACKING = frozenset({40401, 40402, 40403, 40408, 40409, 42201})
"""Codes for something that is not there: a subject, a version, a schema, a setting, what a reference leads to."""

no_subject = RefusalKind(404, 40401, "Subject '{}' not found.")
no_version = RefusalKind(404, 40402, "Version {} not found.")
no_schema = RefusalKind(404, 40403, "Schema not found")
no_schema_of = RefusalKind(404, 40403, "Schema {} not found")
subject_deleted = RefusalKind(404, 40404, "Subject '{}' was soft deleted. Set permanent=true to delete permanently")
subject_not_deleted = RefusalKind(404, 40405, "Subject '{}' was not deleted first before being permanently deleted")
version_deleted = RefusalKind(
    404, 40406, "Subject '{}' Version {} was soft deleted. Set permanent=true to delete permanently"
)
version_not_deleted = RefusalKind(
    404, 40407, "Subject '{}' Version {} was not deleted first before being permanently deleted"
)
no_level = RefusalKind(404, 40408, "Subject '{}' does not have subject-level compatibility configured")
no_mode = RefusalKind(404, 40409, "Subject '{}' does not have subject-level mode configured")
incompatible = RefusalKind(409, 409, "Schema being registered is incompatible with an earlier schema; details: {}")
invalid_schema = RefusalKind(422, 42201, "Invalid schema: {}")
invalid_version = RefusalKind(
    422,
    42202,
    "The specified version '{:.80}' is not a valid version id. Allowed values are between [1, 2^31-1] and the string "
    '"latest"',
)
invalid_level = RefusalKind(422, 42203, "Invalid compatibility level. Valid values are {}")
invalid_mode = RefusalKind(422, 42204, "Invalid mode. Valid values are {}")
not_permitted = RefusalKind(422, 42205, "{}")
referenced = RefusalKind(422, 42206, "One or more references exist to the schema {}: ids {}")
id_taken = RefusalKind(422, 42207, "Overwrite new schema with id {} is not permitted.")
invalid_subject = RefusalKind(422, 42208, "The specified subject '{:.80}' is not a valid subject: {}")
too_large = RefusalKind(422, 42209, "The schema is too large: with its references and escapes it may have {:,} bytes")
too_complex = RefusalKind(
    422,
    42290,
    "Schema too complex: the comparison with the earlier versions takes more than {:,} pairs of types, or {:g} s: use "
    "fewer alternatives in anyOf and oneOf, or split the schema into subjects that it refers to",
)
stopping = RefusalKind(503, NO_WRITER, "This instance is stopping, and has not compared the schema: ask again")
changed_meanwhile = RefusalKind(503, NO_WRITER, "Subject '{}' changes all the time: register the schema again")
store_failed = RefusalKind(500, 50001, "Error in the backend data store: {}")
"""The log could not be written or read; whether it was written is not known."""
forwarding_failed = RefusalKind(500, 50003, "Error while forwarding the request to the primary: {}")
"""The instance that may write could not be asked; whether it has acted is not known."""
no_writer = RefusalKind(500, NO_WRITER, "No instance may write just now; one takes over within seconds: try again")
