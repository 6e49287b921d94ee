"""What the documentation site adds to docs/: pages that lie elsewhere, the API's pages, links out of docs/.

A link of a page leads to a file of the repository. In the site it leads to that file's page; to the file on GitHub
where it has no page. A link to nothing stays as it is, and `mkdocs build --strict` fails.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]
SOURCES = "https://github.com/flashinfer-ai/flashinfer-bench/blob/main"
BROUGHT = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "changes.md": "CHANGELOG.md",
}
DECISIONS = "adr/index.md"
PACKAGES = ("data", "bench", "compile", "apply", "tracing", "intercept", "decompose")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]*)(#[^)\s]*)?(?=\))")
_DIALOG = 'data-md-component="search" role="dialog"'
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    pages = {
        **{name: (REPOSITORY / source).read_text("utf-8") for name, source in BROUGHT.items()},
        DECISIONS: _decisions(),
        **dict(_api()),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn links to files of the repository into links of the site, and tests' marks on code into none."""
    here = page.file.src_uri
    parts = _FENCED.split(markdown)
    return "".join(
        _plain_fence(part)
        if index % 2
        else _LINK.sub(lambda found: _moved(found, here, files), part)
        for index, part in enumerate(parts)
    )


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Name the dialog of the search, which Material leaves without a name."""
    return output.replace(_DIALOG, f'{_DIALOG} aria-label="Search"')


def on_post_build(config: MkDocsConfig) -> None:
    """Remove the page of a server that finds nothing: its links hold for one address only."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)


def _plain_fence(block: str) -> str:
    """Drop what a test reads beside the language: `exit=1`, `file=gelu.py`."""
    head, _, rest = block.partition("\n")
    return f"{head.split()[0]}\n{rest}"


def _moved(link: re.Match[str], page: str, files: Files) -> str:
    path, anchor = link[1], link[2] or ""
    source = BROUGHT.get(page, f"docs/{page}")
    target = normpath(f"{PurePosixPath(source).parent}/{path}")
    return _address(target, page, files, otherwise=path) + anchor


def _address(target: str, page: str, files: Files, *, otherwise: str) -> str:
    """Say where a file of the repository lies, seen from a page of the site."""
    pages = {source: name for name, source in BROUGHT.items()} | {"docs/adr": DECISIONS}
    name = pages.get(target, target.removeprefix("docs/"))
    if target in pages or (target.startswith("docs/") and files.get_file_from_path(name)):
        return relpath(name, PurePosixPath(page).parent)
    return f"{SOURCES}/{target}" if (REPOSITORY / target).exists() else otherwise


def _decisions() -> str:
    """List the decisions by their titles."""
    lines = ["# Decisions", ""]
    for path in sorted((REPOSITORY / "docs" / "adr").glob("*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"* [{title.partition('. ')[2]}]({path.name})")
    return "\n".join(lines)


def _api() -> list[tuple[str, str]]:
    """Make a page for each public package, and one that lists them."""
    index = [
        "# Python API",
        "",
        "The names of `flashinfer_bench` itself are those of these packages.",
        "",
    ]
    pages = []
    for package in PACKAGES:
        tree = ast.parse((_sources(package) / "__init__.py").read_text("utf-8"))
        about = (ast.get_docstring(tree) or "").partition("\n")[0]
        names = "\n\n".join(f"::: {home}.{name}" for name, home in _public(tree, package))
        pages.append((f"api/{package}.md", f"# flashinfer_bench.{package}\n\n{about}\n\n{names}\n"))
        index.append(f"* [`flashinfer_bench.{package}`]({package}.md): {about}")
    return [("api/index.md", "\n".join(index)), *pages]


def _sources(package: str) -> Path:
    return REPOSITORY / "src" / "flashinfer_bench" / package


def _public(tree: ast.Module, package: str) -> list[tuple[str, str]]:
    """Name what a package exports, and the modules these lie in: a package imports what it exports."""
    inside = f"flashinfer_bench.{package}."
    found = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(inside)
        for alias in node.names
    }
    return sorted((name, home) for name, home in found.items() if not name.startswith("_"))
