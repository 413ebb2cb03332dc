"""Opens a log for a choreography."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from eventlib.eventlog import EventLog
from eventlib.ground.arguments import AN_APP, check
from eventlib.model.choreography import Choreography
from eventlib.model.sampling import traced_share


@asynccontextmanager
async def open_log(
    url: str,
    choreography: Choreography,
    *,
    read_only: bool = False,
    services: Sequence[str] | None = None,
    personal: bool | None = None,
) -> AsyncIterator[EventLog]:
    """Open the log at a URL, with a choreography's topics and schemas on it.

    `async with open_log(url, shop) as log: ...`. With `read_only` it creates and registers nothing, so that looking at
    a log does not change it; with `services`, only what these need. `personal` is whether personal fields are decrypted,
    and masked otherwise; by default, unless `read_only`. URLs: `sqlite:///relative/path.db`, `sqlite:////absolute/path.db`,
    `kafka://HOST:PORT,…/`, `archive:DIR` (read only), `memory://`.
    While a file log is open, this process must not open its file in another way, not even to copy it: closing any
    descriptor of a file drops the process's locks on it (POSIX), and then another process may delete the journal.
    Raises: WiringError for another one; LogCorrupt, LogVersionMismatch, LogReadOnly; TopicMismatch when a topic is
    there already with another partition count; SettingsError.
    """
    check(url, str, "url", 'give the URL first: `open_log("sqlite:///var/shop.db", app)`')
    check(choreography, Choreography, "choreography", AN_APP)
    # Imported here so that declaring events and deciders costs no adapter's import.
    from eventlib.codec.registry import RegistryOptions
    from eventlib.codec.wire_format import FramedCodec
    from eventlib.ground.variables import read_settings
    from eventlib.log.open import open_port
    from eventlib.personal.opening import open_cipher
    from eventlib.replay.rebuilding import rebuilt

    options = read_settings(RegistryOptions, {}, also=None)
    share = traced_share()
    cipher = open_cipher(choreography, url, rights=not read_only if personal is None else personal)
    port = await open_port(url)
    registry = None
    try:
        if options.registry is not None:
            from eventlib.codec.remote_registry import RemoteRegistry

            registry = RemoteRegistry(options.registry, options.registry_ca, options.registry_auth)
        codec = FramedCodec(port, registry, auto_register=options.registers, personal=cipher)
        log = EventLog(port, codec, choreography, traced_share=share)
        log.rebuild = rebuilt
        cipher.on_erasure(log.drop_recent)
        if read_only:
            await codec.refresh()
            if codec.registry.damaged:
                from eventlib.runtime.runtime import own_types

                await log.recover_schemas(own_types(choreography.services))
        else:
            await log.prepare(None if services is None else [choreography.service(name) for name in services])
        yield log
    finally:
        if registry is not None:
            await registry.close()
        cipher.close()
        await port.close()
