"""Templates and what they may call: every text is escaped unless it was made as markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.report.page import content
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.report.page.overview import utc_minute
from flashinfer_bench.report.page.roofline import bytes_text
from flashinfer_bench.report.page.sources import highlighted, line_numbers
from flashinfer_bench.text import numbers
from flashinfer_bench.text.tables import first_line, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = re.compile(r"[^_./-]*[_./-]|[^_./-]+")


def breakable(name: str) -> Markup:
    """Let a long name go on in the next line after what separates its words.

    >>> breakable("a_b<")
    Markup('a_<wbr>b&lt;')
    """
    return Markup("<wbr>").join(_WORDS.findall(name))


_FILTERS = {
    "axes": axes_text,
    "breakable": breakable,
    "bytes": bytes_text,
    "error": numbers.error_text,
    "first_line": first_line,
    "latency": numbers.latency_text,
    "line_numbers": line_numbers,
    "percent": numbers.percent_text,
    "slug": slug,
    "utc_minute": utc_minute,
    "speedup": numbers.speedup_text,
}
_GLOBALS = {
    "count": numbers.count_text,
    "definition_page": content.definition_page,
    "highlighted": highlighted,
    "solution_page": content.solution_page,
}


class Renderer:
    """The templates of a site, each compiled once."""

    def __init__(self, common: Mapping[str, Any]) -> None:
        environment = Environment(
            loader=PackageLoader("flashinfer_bench.report.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.filters |= _FILTERS
        environment.globals |= {**_GLOBALS, **common}
        self._environment = environment

    def page(self, template: str, *, root: str = "", **values: Any) -> str:
        """Fill a template in, all of its text visible; `root` leads from the page to the top of the site."""
        return visible(self._environment.get_template(template).render(root=root, **values))
