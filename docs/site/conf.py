"""Sphinx makes the site from the pages in docs/ and the docstrings: `make docs`."""

from importlib.metadata import version as installed

project = "dptopk"
version = release = installed("dptopk")
root_doc = "site/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["README.md"]  # the index of these pages where they are read as files
nitpicky = False

html_theme = "furo"
html_title = "dptopk"
html_copy_source = False

autodoc_typehints = "none"  # the docstrings say types in words
numpydoc_show_class_members = False
myst_heading_anchors = 3
