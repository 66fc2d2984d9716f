"""Sphinx: the site, made of the pages of this folder, the docstrings, examples/ and notebooks/.

`make docs` builds it and prints where the pages are.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import sphinx.application

# Before NumPy is loaded: threads that wait for work on small arrays would count as work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import make_inventories  # noqa: E402 - links to other projects, made without a network
import make_links  # noqa: E402 - the address of the repository

import fdiff  # noqa: E402 - after what stands in this folder

# Examples and notebooks are shown without being run: for CI, whose tests run them.
QUICK = os.environ.get("FDIFF_DOCS_QUICK") == "1"

project = "fdiff"
author = "The fdiff authors"
version = release = fdiff.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["errors.txt", "gallery/*.ipynb", "gallery/*.py", "**/sg_execution_times.rst"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "fdiff"
html_static_path = ["_static"]
html_css_files = ["fdiff.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")
html_show_sourcelink = False
html_theme_options = {
    "github_url": make_links.home(),
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "decisions/*": []}

default_role = "py:obj"  # `name` in a docstring: a link where there is such an object
autodoc_typehints = "none"  # shapes and dtypes stand in the docstrings
autosummary_generate = True
numpydoc_show_class_members = False
intersphinx_mapping = make_inventories.mapping()

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off" if QUICK else "cache"  # a notebook runs again when it has changed
nb_execution_cache_path = str(HERE.parent / "build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/none" if QUICK else r"/\w+\.py",
    "within_subsection_order": "make_figures.by_field",
    "ignore_pattern": r"^(fit_nist|mpi_sum|whole_programs)\.py",  # which draw nothing
    "reset_modules": ("make_figures.reset",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "reference_url": {"fdiff": None},
    "remove_config_comments": True,
}


def copy_notebooks(_: sphinx.application.Sphinx) -> None:
    """Sphinx reads no pages from outside of its folder."""
    folder = HERE / "notebooks"
    folder.mkdir(exist_ok=True)
    for notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
        if (
            not (copy := folder / notebook.name).exists()
            or copy.read_bytes() != notebook.read_bytes()
        ):
            shutil.copyfile(notebook, copy)


def keep_decisions_apart(app: sphinx.application.Sphinx, _: object) -> None:
    """They are for those who change fdiff: neither in the sidebar nor in results of a search."""
    if app.env.docname.startswith("decisions/"):
        app.env.metadata[app.env.docname].update(orphan=True, nosearch=True)


def box_pictures(
    _: sphinx.application.Sphinx, page: str, __: str, context: dict[str, str], *___: object
) -> None:
    """A picture of the gallery scrolls inside of a box where a screen is narrow."""
    if page.startswith("gallery/"):
        picture = r'(<img [^>]*class = "sphx-glr-single-img"/>)'
        context["body"] = re.sub(picture, r'<div class="picture">\1</div>', context["body"])


def setup(app: sphinx.application.Sphinx) -> None:
    app.connect("html-page-context", box_pictures)
    app.connect("builder-inited", copy_notebooks, priority=100)
    app.connect("doctree-read", keep_decisions_apart)
