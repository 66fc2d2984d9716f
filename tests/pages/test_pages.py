"""The site in a browser: `make test-site` builds the pages and looks at them with Chromium.

Desktop and phone, light and dark: no page scrolls sideways, code is readable, the search finds a
function first, no link is broken. Screenshots are left in build/site.
"""

import contextlib
import functools
import http.server
import shutil
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SITE, PICTURES = ROOT / "build" / "docs", ROOT / "build" / "site"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
THEMES = ("light", "dark")
READABLE = 4.5  # contrast of text and background, as WCAG 2 asks for at level AA


def pages():
    """Names of all pages, those of decisions apart."""
    found = (path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    apart = ("decisions/", "_modules/", "_static/", "gallery/sg_", "sg_", "genindex", "py-modindex")
    return sorted(name for name in found if not name.startswith(apart))


class Links(HTMLParser):
    """Targets of links and pictures, and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.targets, self.anchors = [], set()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        key = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if attributes.get(key):
            self.targets.append(attributes[key])


@functools.cache
def links(name):
    parser = Links()
    parser.feed((SITE / name).read_text(encoding="utf-8"))
    return parser


def broken(name):
    """Targets within the site that are not there."""
    for target in links(name).targets:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        path = (SITE / name).parent / unquote(parts.path) if parts.path else SITE / name
        if not path.resolve().exists():
            yield target
        elif parts.fragment and path.suffix == ".html":
            page = path.resolve().relative_to(SITE.resolve()).as_posix()
            if unquote(parts.fragment) not in links(page).anchors:
                yield target


def test_no_link_is_broken():
    assert pages()
    assert {name: bad for name in pages() if (bad := [*broken(name)])} == {}


def test_every_page_has_a_title():
    texts = {name: (SITE / name).read_text(encoding="utf-8") for name in pages()}
    assert [name for name, text in texts.items() if "&lt;no title&gt;" in text] == []


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(QuietHandler, directory=SITE)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def handle(self):
        with contextlib.suppress(ConnectionError):  # the browser has left the page
            super().handle()

    def log_message(self, format, *args):  # noqa: A002 - the name in the base class
        pass


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "install Chromium: apt-get install chromium"
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[(width, theme) for width in WIDTHS for theme in THEMES], ids="-".join)
def page(request, browser):
    width, theme = request.param
    size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
    page = browser.new_page(viewport=size, color_scheme=theme)
    page.add_init_script(f"localStorage.setItem('mode', '{theme}')")
    page.route("**/*", lambda route: local(route))
    yield page, f"{width}-{theme}"
    page.close()


def local(route):
    """No page needs the network, except for the mathematics of MathJax."""
    if route.request.url.startswith("http://127.0.0.1"):
        route.continue_()
    else:
        route.abort()


SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRASTS = """() => {
    const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const behind = e => {
        for (; e; e = e.parentElement) {
            const c = numbers(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.9) return c;
        }
        return [255, 255, 255];
    };
    const contrasts = [];
    for (const e of document.querySelectorAll("article pre, article pre span, article code")) {
        if (!e.innerText || !e.innerText.trim()) continue;
        const [a, b] = [light(numbers(getComputedStyle(e).color)), light(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        contrasts.push([contrast, e.innerText.slice(0, 40)]);
    }
    return contrasts;
}"""


def test_pages_are_readable_at_every_width(page, address):
    page, shown = page
    sideways, faint = {}, {}
    for name in pages():
        page.goto(f"{address}/{name}", wait_until="load")
        if (over := page.evaluate(SIDEWAYS)) > 0:
            sideways[name] = over
        if bad := [c for c in page.evaluate(CONTRASTS) if c[0] < READABLE]:
            faint[name] = min(bad)
        if name in {"index.html", "ten-minutes.html", "api.html", "generated/fdiff.grad.html"}:
            page.screenshot(
                path=PICTURES / f"{name.removesuffix('.html').replace('/', '-')}-{shown}.png"
            )
    assert sideways == {}
    assert faint == {}


@pytest.mark.parametrize("word", ["hessian", "jacobian", "vmap", "gradcheck"])
def test_the_search_finds_a_function_first(word, browser, address):
    page = browser.new_page()
    page.goto(f"{address}/search.html?q={word}")
    page.wait_for_selector("ul.search li a")
    first = page.locator("ul.search li a").first.get_attribute("href")
    page.close()
    assert f"generated/fdiff.{word}.html" in first


def test_decisions_are_in_no_sidebar_and_in_no_search():
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    sidebar = (SITE / "development.html").read_text(encoding="utf-8").partition("<article")[0]
    assert "decisions/" not in sidebar
    assert "Ski-rental" not in index
