"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]  # our directives, and the reproduction

from firstlight._internal.version import __version__  # noqa: E402
from firstlight.pages.figures.style import FONT, ROLES  # noqa: E402

project = "firstlight"
author = "The firstlight founders"
copyright = "The firstlight founders, MIT licence"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx.ext.napoleon",
    "ledger",  # this and the next three are ours, in _ext/
    "study_figure",
    "mathml",
    "api_reference",
]
exclude_patterns = ["_build", "README.md", "gallery/sg_execution_times.rst"]
html_static_path = ["_static"]
nitpicky = True
# Names of other projects, and of our own that are not public, have no page here: no network, no intersphinx.
nitpick_ignore_regex = [(r"py:.*", r"(?!firstlight\b).*"), (r"py:.*", r"firstlight\.\w+\.[a-z_]+\..*")]
nitpick_ignore = [("py:mod", "firstlight.training.observers")]

# ---------------------------------------------------------------- pages

myst_enable_extensions = ["dollarmath", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]
highlight_language = "python"

# ---------------------------------------------------------------- API reference

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # else every word of "Tensor of shape (layers, h, w)" is looked up as a name
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "set_fit_request, set_predict_request, set_score_request"}
add_module_names = False
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 88
default_role = "code"

# ---------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all are run; what the last line of a part returns is drawn
    "ignore_pattern": r"__init__\.py",
    "image_scrapers": ("gallery_figures.save_figure",),
    "abort_on_example_error": True,
    "reset_modules": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}

# ---------------------------------------------------------------- look: the palette of figures and pages

html_theme = "furo"
html_title = f"firstlight {release}"
html_css_files = ["firstlight.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
_light, _dark = ROLES["trained"].colour, "#6cb8e6"
html_theme_options = {
    "light_css_variables": {
        "font-stack": FONT,
        "color-brand-primary": _light,
        "color-brand-content": _light,
        "color-verdict-reproduced": ROLES["theory"].colour,
        "color-verdict-partly": "#8a6d00",
        "color-verdict-not-reproduced": ROLES["random labels"].colour,
        "color-verdict-not-run": "#6b6b6b",
    },
    "dark_css_variables": {
        "color-brand-primary": _dark,
        "color-brand-content": _dark,
        "color-verdict-reproduced": "#35c79b",
        "color-verdict-partly": "#e0c04c",
        "color-verdict-not-reproduced": "#ff8a47",
        "color-verdict-not-run": "#a8a8a8",
    },
}
