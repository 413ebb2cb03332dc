"""`eventlib forget`: erases a person by destroying the key of their personal data."""

from rich.text import Text

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
    console = output.terminal()
    key = "its key would be destroyed" if done.has_key else "it has no key, and gets none"
    told = f"is erased since {done.erased_at} already" if done.erased_at else f"would be erased: {key}"
    console.print(Text(output.printable(f"{done.subject} {told}."), style="bold"))
    cannot = "can" if done.erased_at else "could then"
    for topic, records in (done.records or {}).items():
        console.print(f"  {output.counted(records, 'record')} of {topic} {cannot} no longer be decrypted")


def _print(receipt: Receipt) -> None:
    console = output.terminal()
    key = "its key is destroyed" if receipt.had_key else "it had no key, and gets none"
    console.print(
        Text(output.printable(f"{receipt.subject} is erased since {receipt.erased_at}: {key}."), style="bold")
    )
    console.print(output.printable(f"erasure {receipt.erasure}, by {receipt.by}: {receipt.reason}"), soft_wrap=True)
    for topic, records in (receipt.records or {}).items():
        console.print(f"  {output.counted(records, 'record')} of {topic} can no longer be decrypted")
    console.print(Text("not covered: " + "; ".join(receipt.not_covered), style="dim"), soft_wrap=True)
