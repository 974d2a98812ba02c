"""The pages are plain files of one folder, and load nothing from anywhere else."""

from __future__ import annotations

import re

import httpx
import pytest
from fastapi.responses import JSONResponse

from inturn.web import pages
from inturn.web.pages import FOLDER, TYPES
from inturn.workflows.config import MAX_TEXT
from tests.http.site import BASE, Site, problem


async def test_the_page_and_its_parts_are_served_as_what_they_are(site: Site) -> None:
    page = await site.client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for file in FOLDER.rglob("*"):
        if file.suffix in TYPES:
            part = await site.client.get(f"/page/{file.relative_to(FOLDER).as_posix()}")
            assert part.status_code == 200
            # this site has no tasks, so nothing leads to them
            links = r'<(\w+) data-service="tasks".*?</\1>' if file.suffix == ".html" else "(?!)"
            assert part.text == re.sub(links, "", file.read_text("utf-8"), flags=re.DOTALL)
            assert part.headers["content-type"] == TYPES[file.suffix]
            for directive in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
                assert directive in part.headers["content-security-policy"]
            assert "unsafe" not in part.headers["content-security-policy"]
            assert part.headers["x-content-type-options"] == "nosniff"
            assert part.headers["cache-control"] == "no-cache"
    assert (await site.client.head("/")).content == b""


def test_the_message_field_takes_as_much_as_the_server_does() -> None:
    page = (FOLDER / "index.html").read_text("utf-8")
    assert re.findall(r'<textarea id="text"[^>]* maxlength="([0-9]+)"', page) == [str(MAX_TEXT)]


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "%2fetc%2fpasswd", "none.js", "%00", "", "x" * 300, "a/b"]
)
async def test_no_name_leads_out_of_the_page(site: Site, name: str) -> None:
    problem(await site.client.get(f"/page/{name}"), 404, "not-found")


async def test_pages_that_load_from_elsewhere_are_off(site: Site) -> None:
    problem(await site.client.get("/redoc"), 404, "not-found")
    docs = await site.client.get("/docs")
    assert docs.status_code == (200 if (FOLDER / "docs.html").exists() else 404)
    assert b"cdn" not in docs.content


@pytest.mark.parametrize("path", ["/", "/docs", "/page/style.css", "/openapi.json"])
async def test_a_client_that_has_it_is_not_sent_it_again(site: Site, path: str) -> None:
    first = await site.client.get(path)
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    tag = first.headers["etag"]
    for known in (tag, f'W/"other", W/{tag}', "*"):
        again = await site.client.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await site.client.get(path, headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    whole = await site.client.head(path)
    assert (whole.status_code, whole.headers["content-length"]) == (200, str(len(first.content)))


async def test_the_description_is_written_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []

    def counting(schema: object) -> JSONResponse:
        written.append(schema)
        return JSONResponse(schema)

    monkeypatch.setattr(pages, "JSONResponse", counting)
    answers = [await site.client.get("/openapi.json") for _ in range(3)]
    assert {answer.content for answer in answers} == {answers[0].content}
    assert answers[0].json() == site.api.openapi()
    assert len(written) == 1

    @site.api.get("/added-later")
    async def added() -> None: ...

    assert "/added-later" in (await site.client.get("/openapi.json")).json()["paths"]


async def test_the_description_names_the_place_where_the_app_is_mounted(site: Site) -> None:
    transport = httpx.ASGITransport(site.api, root_path="/chat")
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        described = (await client.get("/chat/openapi.json")).json()
    assert described["servers"] == [{"url": "/chat"}]
    assert "servers" not in (await site.client.get("/openapi.json")).json()
