"""The site: `make docs` builds it into build/site, warnings are errors, and nothing is loaded from elsewhere."""

import os
import tomllib
import warnings
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# The gallery shows warnings, and they no path of the machine that built it.
warnings.formatwarning = lambda message, category, *_: f"{category.__name__}: {message}\n"

project = "Dimly"
author = "the Dimly authors"
copyright = author
release = version = PROJECT["version"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery", "reference/generated/gallery/*.ipynb", "**/.ipynb_checkpoints"]
nitpicky = False  # docstrings name types in words ("array of shape (n, k)"), which are no targets
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function, so that they are not kept between builds

# Pages
highlight_language = "none"  # unless a block says its language
myst_heading_anchors = 4  # links such as ledger.md#what-is-charged work here as they do in the repository
myst_enable_extensions = ["colon_fence", "deflist"]
myst_all_links_external = False
smartquotes_action = "qe"  # quotes and ellipses; options keep their two hyphens

# Notebooks
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The API, from docstrings
autosummary_generate = True
templates_path = ["_templates"]
# scikit-learn makes these two for its estimators, and documents them with links into its own pages.
autodoc_default_options = {"exclude-members": "set_fit_request, set_transform_request, model_config"}
autodoc_typehints = "none"  # the docstrings say them, with ranges and units
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # types are words, and would be taken for names of ours
add_module_names = False


def scrape(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save what a script calls ``figure``; ours are drawn without pyplot, which the usual scraper looks for."""
    figure = block_vars["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=120)
    return str(figure_rst([path], gallery_conf["src_dir"]))


# The gallery
sphinx_gallery_conf = {
    "image_scrapers": (scrape,),
    "examples_dirs": "gallery",
    "gallery_dirs": "reference/generated/gallery",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its pages would load scripts from elsewhere
    "run_stale_examples": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
}

# The look: system fonts, no scripts from elsewhere
html_theme = "furo"
html_title = f"Dimly {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
