"""`eventlib forget`: erases a person by destroying the key of their personal data."""

from eventlib.cli._common import output
from eventlib.cli._common.act_command import act_command
from eventlib.operations.erasure import Forget, ForgetPreview, Forgotten
from eventlib.personal.receipt import Receipt


@act_command(Forget)
def forget(done: ForgetPreview | Forgotten) -> None:
    """Erase a person: destroy the key of their personal data, and print the receipt.

    This cannot be undone. Services may run: each stops using the key within a
    second. The personal fields then read as [erased] everywhere, and what is
    written under this id later is erased, too. The erasure and its receipt are
    events on the topic _erasures. Given again, it completes an erasure that was
    interrupted, or prints the receipt of the first time.

    [dim]Examples:[/dim]
      eventlib forget 12583 --dry-run
      eventlib forget 12583 --reason "request of 2026-01-31"
      eventlib forget 12583 --reason "request of 2026-01-31" --json | jq .records
    """
    if isinstance(done, Forgotten):
        _print(done.receipt)
        return
    key = "its key would be destroyed" if done.has_key else "it has no key, and gets none"
    told = f"is erased since {done.erased_at} already" if done.erased_at else f"would be erased: {key}"
    output.say(f"{done.subject} {told}.", "bold")
    cannot = "can" if done.erased_at else "could then"
    for topic, records in (done.records or {}).items():
        output.say(f"  {output.counted(records, 'record')} of {topic} {cannot} no longer be decrypted")


def _print(receipt: Receipt) -> None:
    key = "its key is destroyed" if receipt.had_key else "it had no key, and gets none"
    output.say(f"{receipt.subject} is erased since {receipt.erased_at}: {key}.", "bold")
    output.say(f"erasure {receipt.erasure}, by {receipt.by}: {receipt.reason}")
    for topic, records in (receipt.records or {}).items():
        output.say(f"  {output.counted(records, 'record')} of {topic} can no longer be decrypted")
    output.say("not covered: " + "; ".join(receipt.not_covered), "dim")
