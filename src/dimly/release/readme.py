"""README.md in a release folder: what this is and how to read it, for whoever finds the folder without knowing Dimly.

It follows from the manifest alone, so that verifying compares it word by word, and it adds nothing to what is known.
"""

from typing import Final

from dimly.release.manifest import Manifest

README: Final = "README.md"
_MARKUP: Final = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>&#|~$"})


def readme_of(manifest: Manifest) -> str:
    """Return the text; the same manifest gives the same."""
    plan, about = manifest.plan, manifest.about
    title = "A release of Dimly" if about is None or about.title is None else _one_line(about.title)
    by = "" if about is None or about.publisher is None else f" Published by {_one_line(about.publisher)}."
    note = "" if about is None or about.note is None else f" {_one_line(about.note)}"
    date = "" if about is None else f" Date: {about.date}."
    warning = [] if manifest.private else ["**NOT PRIVATE: made for tests only. Do not give it to anyone.**", ""]
    epsilon, delta = (repr(value).removesuffix(".0") for value in (plan.cost.epsilon, plan.cost.delta))  # not rounded
    cost = f"epsilon = {epsilon} and delta = {delta}"
    what = (
        f"One row of noisy integers for each of {manifest.n_users:,} people, made by `{plan.mechanism}` with {cost} "
        f"for one {plan.unit} of one person."
    )
    return "\n".join(
        [
            f"# {title}",
            "",
            *warning,
            what + by + date + note,
            "`manifest.json` says in words what is promised, and what is not.",
            "",
            "- pandas: `pandas.read_parquet('sketches')`, with the columns `user` and `sketch`",
            "- DuckDB: `SELECT * FROM 'sketches/*.parquet'`",
            "- Dimly: `pip install dimly`, then `dimly.open_release('.').neighbors(user)`, or `dimly report .`",
            "",
            "Single numbers are mostly noise. Dimly estimates distances from them, with intervals.",
            "`dimly verify .` checks that nothing was changed.",
            "",
        ]
    )


def _one_line(text: str) -> str:
    """Return text that cannot become another part of the page, nor a link, a picture or a tag in it."""
    return " ".join(text.split()).translate(_MARKUP)
