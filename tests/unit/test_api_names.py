"""The page of public names is as the source has them."""

from tests.api_names import API, BLOCK, listed, renewed


def test_the_page_of_public_names_is_as_the_source_has_them() -> None:
    text = (API.parent / "names.md").read_text(encoding="utf-8")
    blocks = listed()
    assert sorted(BLOCK.findall(text)) == sorted(blocks)
    assert renewed(text, blocks) == text, "renew it: python -m tests.api_names"


def test_each_name_has_its_signature_and_its_first_sentence() -> None:
    blocks = listed()
    assert "- `Units(name: str)`: Marks a field that counts something" in blocks["eventlib"]
    assert (
        "    - `follows(*event_types: type[Event]) -> None`: Declare events that only change the state"
        in blocks["eventlib"]
    )
    assert "- `FOREVER`: For compensations: they do not give up." in blocks["eventlib"]
    assert "- `is_final(error: BaseException) -> bool`: Return whether no retry helps" in blocks["errors"]
