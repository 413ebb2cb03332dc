"""A person's way through the console: by mouse, or by the keyboard alone, with each step counted."""

from time import perf_counter
from typing import TYPE_CHECKING

from tests.console.browsers import Visit

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

_MOST_TABS = 400


class Walk:
    """Counts the clicks and the texts that a job takes, and the seconds that the console lets a person wait."""

    def __init__(self, visit: Visit, *, by_keyboard: bool = False) -> None:
        self.visit = visit
        self.by_keyboard = by_keyboard
        self.clicks = 0
        self.texts = 0
        self.waited_s = 0.0

    @property
    def page(self) -> "Page":
        """The page as it is now."""
        return self.visit.page

    async def open(self, path: str) -> None:
        """Begin at a page."""
        begun = perf_counter()
        await self.visit.open(path)
        self.waited_s += perf_counter() - begun

    async def click(self, target: "Locator") -> None:
        """Press a link, a button or a box, which has to be in reach without a mouse, too."""
        self.clicks += 1
        await target.wait_for()
        if self.by_keyboard:
            await self._reach(target)
            is_box = await target.evaluate("each => each.type === 'checkbox'")
            await self._timed("Space" if is_box else "Enter")
        else:
            begun = perf_counter()
            await target.click()
            self.waited_s += perf_counter() - begun

    async def link(self, name: str) -> None:
        """Press a link of the page, by its name."""
        await self.click(self.page.get_by_role("main").get_by_role("link", name=name).first)

    async def button(self, name: str) -> None:
        """Press a button of the page, by its name."""
        await self.click(self.page.get_by_role("main").get_by_role("button", name=name).first)

    async def write(self, field_id: str, text: str) -> None:
        """Write into a field in place of what it has, and leave the focus there."""
        field = self.page.locator(f"#{field_id}")
        self.texts += 1
        await field.wait_for()
        if self.by_keyboard:
            await self._reach(field)
        else:
            await field.click()
        await self.page.keyboard.press("Control+A")
        await self.page.keyboard.type(text)

    async def key(self, key: str) -> None:
        """Press a key of the console, which counts as a click."""
        self.clicks += 1
        await self._timed(key)

    async def sees(self, selector: str, text: str = "") -> None:
        """Wait until something is there, and within the window without scrolling."""
        begun = perf_counter()
        found = self.page.locator(selector).filter(has_text=text).first
        await found.wait_for()
        await self.page.wait_for_function(
            "each => { const at = each.getBoundingClientRect(); return at.bottom > 0 && at.top < innerHeight }",
            arg=await found.element_handle(),
        )
        self.waited_s += perf_counter() - begun

    async def _timed(self, key: str) -> None:
        begun = perf_counter()
        await self.page.keyboard.press(key)
        self.waited_s += perf_counter() - begun

    async def _reach(self, target: "Locator") -> None:
        """Press Tab until the target has the focus; fail when it never gets it."""
        for _ in range(_MOST_TABS):
            if await target.evaluate("each => each === document.activeElement"):
                return
            await self.page.keyboard.press("Tab")
        raise AssertionError(f"the keyboard does not reach {target}")
