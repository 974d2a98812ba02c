"""The whole app, as the tests of `http/` have it."""

from tests.http.conftest import keyed_site, site

__all__ = ["keyed_site", "site"]
