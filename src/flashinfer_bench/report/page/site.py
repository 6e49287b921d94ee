"""The site: which pages there are, what each is filled with, and what its template may call.

Every text is escaped unless it was made as markup.
"""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flashinfer_bench.data.wording import axes_text
from flashinfer_bench.errors import DatasetError
from flashinfer_bench.judging.choice import judge_name
from flashinfer_bench.report.generation import generation_facts, newest_generation
from flashinfer_bench.report.kernel_profile import profile_page
from flashinfer_bench.report.model import model_worth
from flashinfer_bench.report.page.advances import advances
from flashinfer_bench.report.page.columns import without_empty_columns
from flashinfer_bench.report.page.content import definition_page, solution_page
from flashinfer_bench.report.page.definitions import Definitions
from flashinfer_bench.report.page.leaderboard import boards
from flashinfer_bench.report.page.names import slug
from flashinfer_bench.report.page.overview import machines, runs, utc_minute
from flashinfer_bench.report.page.roofline import bytes_text
from flashinfer_bench.report.page.solutions import builds, jobs_by_hardware, lines
from flashinfer_bench.report.page.sources import highlighted, line_numbers
from flashinfer_bench.report.visualize import charts
from flashinfer_bench.text import numbers
from flashinfer_bench.text.tables import first_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from flashinfer_bench.data import Definition, Solution
    from flashinfer_bench.report.page.content import Content, RecordedJob
    from flashinfer_bench.report.visualize import DefinitionChart
    from flashinfer_bench.text.tables import Page

    # By hardware and definition.
    Charts = Mapping[tuple[str, str], DefinitionChart]

_WORDS = re.compile(r"[^_./-]*[_./-]|[^_./-]+")
_STATIC = ("site.css", "site.js")
_LIVE = ("live.js",)


def pages(content: Content) -> Iterator[tuple[str, str]]:
    """Give every file of the site with its path."""
    for name in _STATIC + (_LIVE if content.live else ()):
        yield name, (resources.files(__package__) / "static" / name).read_text(encoding="utf-8")
    definitions = Definitions(content)
    renderer = Renderer({"site": content})
    drawn = {
        (group.hardware, chart.definition): chart
        for group in charts(content.standing, content.samples_of)
        for chart in group.definitions
    }
    yield "data/search.js", _script("search", _search_entries(content))
    yield from _lists(content, definitions, renderer)
    yield "solutions.html", renderer.page("solutions.html", lines=lines(content, drawn))
    yield from _definition_pages(content, definitions, drawn, renderer)
    yield from _solution_pages(content, renderer)
    yield from _model_pages(content, renderer)


def _lists(
    content: Content, definitions: Definitions, renderer: Renderer
) -> Iterator[tuple[str, str]]:
    measured = machines(content, definitions)
    names = {name for tallies in content.standing.tallies.values() for name in tallies}
    yield (
        "index.html",
        renderer.page(
            "overview.html",
            machines=measured,
            advances=advances(content),
            runs=runs(content),
            unmeasured=[name for name in content.definition_names if name not in names],
        ),
    )
    yield (
        "leaderboard.html",
        renderer.page(
            "leaderboard.html",
            boards=boards(content),
            best={each.hardware: each.best for each in measured},
            weak_tasks=content.standing.left_out.weak_tasks,
        ),
    )
    yield "definitions.html", renderer.page("definitions.html", best=definitions.best)
    worths = [(each, model_worth(each.profile, content.standing)) for each in content.models]
    yield "models.html", renderer.page("models.html", models=worths)


def _definition_pages(
    content: Content, definitions: Definitions, drawn: Charts, renderer: Renderer
) -> Iterator[tuple[str, str]]:
    for name in content.definition_names:
        page = renderer.page(
            "definition.html",
            root="../",
            name=name,
            definition=content.definitions.get(name),
            workloads=content.workloads.get(name, ()),
            solutions=content.solutions_by_definition.get(name, []),
            by_hardware=definitions.of(name, drawn),
        )
        yield definition_page(name), page
        yield f"data/sources-{slug(name)}.js", _script("sources", _sources(content, name))


def _solution_pages(content: Content, renderer: Renderer) -> Iterator[tuple[str, str]]:
    options = {
        definition: _options(content, names, renderer)
        for definition, names in content.solutions_by_definition.items()
    }
    for name, jobs in content.jobs_by_solution.items():
        solution = content.solutions.get(name)
        definition = solution.definition if solution else jobs[0].row.definition
        page = renderer.page(
            "solution.html",
            root="../",
            name=name,
            solution=solution,
            definition=definition,
            builds=builds(solution, jobs),
            by_hardware=jobs_by_hardware(content, jobs),
            others=options[definition],
            generated=_generated(content, solution, jobs),
            profiles=_profiles(content, solution),
        )
        yield solution_page(name), page


def _generated(
    content: Content, solution: Solution | None, jobs: Iterable[RecordedJob]
) -> dict[str, str]:
    if solution is None:
        return {}
    newest = sorted(jobs, key=lambda job: job.row.timestamp or "", reverse=True)
    evaluations = (job.evaluation for job in newest)
    return generation_facts(
        newest_generation(evaluations, solution.hash(), content.solutions.values())
    )


def _profiles(content: Content, solution: Solution | None) -> list[Page]:
    """What `profile` kept of the present code, the newest first; not where reports lie on somebody's disk."""
    kept = () if solution is None else content.kernel_profiles.get(solution.hash(), ())
    newest = sorted(kept, key=lambda each: each.taken_at, reverse=True)
    return [profile_page(msgspec.structs.replace(each, reports=())) for each in newest]


def _options(content: Content, names: Iterable[str], renderer: Renderer) -> Markup:
    """Offer the solutions of a definition for comparison, once for all their pages."""
    known = [name for name in names if name in content.solutions]
    return Markup(renderer.page("options.html", names=known)) if len(known) > 1 else Markup("")  # noqa: S704  # escaped by the template


def _model_pages(content: Content, renderer: Renderer) -> Iterator[tuple[str, str]]:
    for model in content.models:
        worths = model_worth(model.profile, content.standing)
        yield model.page, renderer.page("model.html", root="../", model=model, worths=worths)


def _search_entries(content: Content) -> list[tuple[str, str, str, str]]:
    """Say of everything that can be found: its kind, its name, a detail, and its page."""
    found = [
        (
            "definition",
            name,
            content.definitions[name].op_type if name in content.definitions else "",
            definition_page(name),
        )
        for name in content.definition_names
    ]
    found += [
        ("solution", name, content.author_of(name) or "", solution_page(name))
        for name in content.jobs_by_solution
    ]
    found += [("model", each.name, each.profile.framework, each.page) for each in content.models]
    return found


def _sources(content: Content, definition: str) -> dict[str, Any]:
    """Give the sources of a definition's solutions, by the name of their page."""
    found = [
        content.solutions.get(each) for each in content.solutions_by_definition.get(definition, ())
    ]
    return {
        slug(each.name): {
            "name": each.name,
            "files": [[source.path, source.content] for source in each.sources],
        }
        for each in found
        if each is not None
    }


def _script(name: str, value: object) -> str:
    """Wrap data in a script: a page from a file may load no other kind of data."""
    shown = json.dumps(_visible(value), separators=(",", ":"))
    return f"fib.data({json.dumps(name)}, {shown});\n"


def _visible(value: Any) -> Any:
    match value:
        case str():
            return visible(value)
        case list() | tuple():
            return [_visible(each) for each in value]
        case dict():
            return {key: _visible(each) for key, each in value.items()}
        case _:
            return value


def breakable(name: str) -> Markup:
    """Let a long name go on in the next line after what separates its words.

    >>> breakable("a_b<")
    Markup('a_<wbr>b&lt;')
    """
    return Markup("<wbr>").join(_WORDS.findall(name))


def judge_text(definition: Definition) -> str:
    """Name the judge that judges a definition; one there is not is shown as it was declared."""
    try:
        return judge_name(definition)
    except DatasetError:
        return definition.judge or ""


_FILTERS = {
    "axes": axes_text,
    "breakable": breakable,
    "bytes": bytes_text,
    "error": numbers.error_text,
    "first_line": first_line,
    "latency": numbers.latency_text,
    "line_numbers": line_numbers,
    "percent": numbers.percent_text,
    "size": numbers.size_text,
    "slug": slug,
    "utc_minute": utc_minute,
    "speedup": numbers.speedup_text,
    "judge": judge_text,
}
_GLOBALS = {
    "count": numbers.count_text,
    "definition_page": definition_page,
    "highlighted": highlighted,
    "solution_page": solution_page,
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
        text = self._environment.get_template(template).render(root=root, **values)
        return without_empty_columns(visible(text))
