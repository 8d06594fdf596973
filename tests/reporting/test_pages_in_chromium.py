"""Pages of ten kinds of models as Chromium shows them: wide and narrow, light and dark, nothing cut or unreadable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from browser import Browser, browser, executable

import bayeskit as bk

pytestmark = pytest.mark.skipif(executable() is None, reason="there is no Chromium here")

RNG = np.random.default_rng(7)
WINDOWS = [(width, scheme) for width in (1400, 400) for scheme in ("light", "dark")]
QUIET: dict[str, Any] = {"random_seed": 1, "progressbar": False}
HOSTILE = '<img src=x onerror="console.error(1)"> $x_1^2$ & "q"'
# Widths, pictures and contrasts of a page as it is shown; the contrast of a text is that of WCAG 2 to what is behind.
LOOK = """(() => {
  const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4) };
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  document.querySelectorAll("details").forEach(d => { d.open = true });
  let worst = [99, ""], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.getClientRects().length || node.tagName === "STYLE") continue;
    const a = light(parse(getComputedStyle(node).color)), b = light(behind(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.data];
  }
  const scrolled = node => !!node.closest(".scroll, .frame, pre");
  const out = [...document.querySelectorAll("main *")].filter(
    n => !scrolled(n) && n.getBoundingClientRect().right > innerWidth + 1).map(n => n.outerHTML.slice(0, 80));
  const images = [...document.images];
  return {
    overflow: document.documentElement.scrollWidth - innerWidth, out: out,
    unnamed: images.filter(i => !i.alt.trim()).length, broken: images.filter(i => !i.naturalWidth).length,
    shrunk: Math.min(1, ...images.map(i => i.clientWidth / Math.min(480, i.width || 480))),
    images: images.length, contrast: worst, dark: light(behind(document.body)) < 0.1,
    scripts: document.scripts.length,
  };
})()"""


def line(mean: float = 0.0) -> pm.Model:
    with pm.Model(coords={"person": [f"p{k}" for k in range(30)]}) as model:
        mu = pm.Normal("mu", mean, 3.0)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Normal("y", mu, sigma, observed=np.append(RNG.normal(1.0, 0.3, 29), 4.0), dims="person")
    return model


def chains(away: float = 0.0, length: int = 300, stuck: bool = False, diverging: float = 0.0) -> xr.DataTree:
    mu, sigma = RNG.normal(1.1, 0.1, (4, length)), np.abs(RNG.normal(0.6, 0.08, (4, length)))
    mu[0] += away
    if stuck:
        mu = np.cumsum(RNG.normal(0, 0.03, mu.shape), axis=1)
    stats = {"diverging": RNG.random(mu.shape) < diverging * (sigma < 0.55), "energy": RNG.normal(size=mu.shape)}
    coords = {"chain": range(4), "draw": range(length)}
    groups = {"posterior": {"mu": mu, "sigma": sigma}, "sample_stats": stats}
    made = {g: xr.Dataset({n: (("chain", "draw"), v) for n, v in of.items()}, coords) for g, of in groups.items()}
    return xr.DataTree.from_dict(made)


def counts() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("n", pm.Gamma("rate", 2.0, 0.5), observed=RNG.negative_binomial(1, 0.1, 60))
    return model


def states() -> pm.Model:
    """A hidden Markov chain of four days."""
    rows, day = pm.math.stack([[0.9, 0.1], [0.2, 0.8]]), None
    with pm.Model() as model:
        for t, y in enumerate((-2.1, -1.8, 2.2, 1.7)):
            day = pm.Categorical(f"day {t}", [0.5, 0.5] if day is None else rows[day])
            pm.Normal(f"y {t}", pm.math.switch(pm.math.eq(day, 1), 2.0, -2.0), 1.0, observed=y)
    return model


def process() -> pm.Model:
    x = np.linspace(0, 1, 12)[:, None]
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 0.3))
        f = gp.prior("f", X=x)
        pm.Normal("y", f, 0.2, observed=np.sin(6 * x[:, 0]))
    return model


def classes() -> pm.Model:
    with pm.Model(coords={"class": ["red", "blue"]}) as model:
        c = pm.Categorical("c", pm.Dirichlet("p", [1.0, 1.0], dims="class"), observed=[0, 0, 1, 1])
        pm.Normal("x", pm.Normal("mu", 0.0, 2.0, dims="class")[c], 1.0, observed=[-1.0, -1.2, 1.0, 1.4])
    return model


def mixture() -> pm.Model:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5, shape=6)
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        pm.Normal("y", mu[z], 1.0, observed=[-2.0, -1.5, -1.8, 2.0, 2.2, 2.1])
    return model


def groups() -> pm.Model:
    with pm.Model(coords={"group": [f"a rather long name of group {k}" for k in range(400)]}) as model:
        effect = pm.Normal("effect", 0.0, 1.0, dims="group")
        pm.Normal("y", effect, 1.0, observed=RNG.normal(0, 1.4, 400), dims="group")
    return model


def point() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal(HOSTILE, 0.0, 1.0), 1.0, observed=[0.3, 0.1, -0.2])
    return model


def given(**options: Any) -> Callable[[Path], Path]:
    return lambda path: bk.report(chains(**options), path, model=line(), sections=["verdict", "sampler", "priors"])


def inferred(build: Callable[[], pm.Model], *sections: str) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        post = bk.infer(build(), draws=600, **QUIET)
        results = [bk.savage_dickey(post, HOSTILE, 0.0)] if build is point else []
        title = HOSTILE if build is point else None
        return bk.report(post, path, sections=sections or None, results=results, title=title)

    return write


# What is written of a page, and words that its verdict has to have.
PAGES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "disagreeing": (given(away=1.0), "the chains disagree"),
    "divergent": (given(diverging=0.3), "transitions diverged"),
    "too short": (given(stuck=True), "draws are worth"),
    "overdispersed": (inferred(counts, "verdict", "predictive"), "vary more than a Poisson"),
    "outlying": (
        inferred(lambda: line(-40.0), "verdict", "learning", "loo", "posterior"),
        "contradict the prior of mu",
    ),
    "states": (inferred(states, "verdict", "plan", "graph", "posterior"), "day 0"),
    "process": (inferred(process, "verdict", "posterior", "evidence"), "f"),
    "classes": (inferred(classes), "mu"),
    "mixture": (inferred(mixture, "verdict", "posterior", "sampler"), "mu"),
    "groups": (inferred(groups, "verdict", "posterior", "learning", "loo"), "effect"),
    "point": (inferred(point), "x_1^2"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@cache
def written(name: str, folder: Path) -> Path:
    return PAGES[name][0](folder / f"{name}.html")


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shown_whole_and_without_complaint(name: str, folder: Path, chromium: Browser) -> None:
    path = written(name, folder)
    assert path.stat().st_size < 1_000_000
    chromium.show(path)
    for width, scheme in WINDOWS:
        chromium.window(width, scheme)
        seen = chromium.evaluate(LOOK)
        where = f"{name} at {width}, {scheme}"
        assert not chromium.complaints(), where
        assert seen["overflow"] <= 0 and not seen["out"], (where, seen["out"])
        assert seen["unnamed"] == seen["broken"] == seen["scripts"] == 0, where
        assert seen["shrunk"] > 0.98, where
        assert seen["contrast"][0] >= 4.5, (where, seen["contrast"])
        assert seen["dark"] == (scheme == "dark"), where
    words = chromium.evaluate("document.querySelector('#verdict p').textContent")
    assert PAGES[name][1] in words


@pytest.mark.slow
def test_a_long_title_in_the_contents_is_broken(folder: Path, chromium: Browser) -> None:
    title = "Log evidence of my_model.py:scale=0.25,differ=yes by several estimators"
    path = bk.report(chains(), folder / "long.html", model=line(), sections=[bk.Section("own", title, ("text",))])
    chromium.show(path)
    chromium.window(400, "light")
    seen = chromium.evaluate(LOOK)
    assert seen["overflow"] <= 0 and not seen["out"], seen["out"]


@pytest.mark.slow
def test_the_index_is_shown_as_well(folder: Path, chromium: Browser) -> None:
    for name in ("divergent", "point"):
        written(name, folder)
    index = bk.report_index(folder)
    chromium.show(index)
    for width, scheme in WINDOWS:
        chromium.window(width, scheme)
        seen = chromium.evaluate(LOOK)
        assert not chromium.complaints() and seen["overflow"] <= 0 and seen["contrast"][0] >= 4.5
