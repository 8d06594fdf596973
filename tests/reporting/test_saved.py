"""Saving and loading: everything that was there is there again, in another process, and what is not is said by name."""

from __future__ import annotations

import os
import pickle
import re
import resource
import shutil
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import arviz as az
import h5py
import joblib
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from pymc.distributions.transforms import ordered
from pymc_extras.distributions import DiscreteMarkovChain

import bayeskit as bk
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.reporting import saved, sections
from bayeskit.reporting.records import styled
from bayeskit.reporting.subject import Subject
from bayeskit.results.records import Posterior

Y = np.array([1.0, 2.0, 0.5, 1.5, 3.0, 2.2])


def labelled(prior: float = 2.0, y: np.ndarray = Y) -> pm.Model:
    with pm.Model(coords={"group": ["a", "b"], "day": pd.date_range("2026-01-30", periods=6)}, name="") as model:
        x = pm.Data("x", np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0]), dims="day")
        s = pm.InverseGamma("s", 3.0, 2.0)
        mu = pm.Normal("mu", 0.0, prior * pm.math.sqrt(s), dims="group")
        pm.Normal("y", mu[0] + (mu[1] - mu[0]) * x, pm.math.sqrt(s), observed=y, dims="day")
    return model


def known_scale() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 2.0), 1.0, observed=Y)
    return model


def chain() -> pm.Model:
    with pm.Model() as model:
        stay = np.array([[0.9, 0.1], [0.2, 0.8]])
        z = DiscreteMarkovChain("z", P=stay, init_dist=pm.Categorical.dist([0.5, 0.5]), shape=(6,))
        pm.Normal("y", pm.math.stack([0.0, 2.0])[z], 1.0, observed=Y)
    return model


def process() -> pm.Model:
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 1.0)).prior("f", np.arange(6.0)[:, None], reparameterize=False)
        pm.Normal("y", f, 0.5, observed=Y)
    return model


def mixture() -> pm.Model:
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 2.0)
        pm.Mixture("y", [0.4, 0.6], [pm.Normal.dist(a, 1.0), pm.Normal.dist(2.0, 1.0)], observed=Y)
    return model


def two_levels() -> pm.Model:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=3)[[0, 1, 2, 0, 1, 2]], 1.0, observed=Y)
    return model


def counts() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("c")), observed=[1, 2, 0, 1, 3, 2])
    return model


def vectors() -> pm.Model:
    with pm.Model() as model:
        mu = pm.MvNormal("mu", np.zeros(2), np.eye(2))
        p = pm.Dirichlet("p", np.ones(3))
        pm.MvNormal("y", mu, np.eye(2), observed=Y.reshape(3, 2))
        pm.Multinomial("n", 10, p, observed=[3, 3, 4])
        pm.VonMises("angle", pm.Uniform("turn", -np.pi, np.pi), 2.0, observed=[0.1, 0.5])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            w = pm.Wishart("w", 4, np.eye(2), initval=np.eye(2))
        pm.MvNormal("v", np.zeros(2), tau=w, observed=Y.reshape(3, 2))
    return model


def in_order() -> pm.Model:
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.Normal("y", a[[0, 1, 0, 1, 0, 1]], 1.0, observed=Y)
    return model


def nothing_free() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", 0.0, 1.0, observed=Y)
    return model


CASES: tuple[Callable[[], pm.Model], ...] = (
    *(labelled, known_scale, chain, process, mixture, two_levels, counts, vectors, in_order, nothing_free),
)
SAMPLED = {"method": "nuts", "sampler": {"tune": 50, "chains": 2, "cores": 1}}
NAMES = [case.__name__ for case in CASES]
PICKLED = ("labelled", "chain", "two_levels", "counts")


@pytest.fixture(scope="module")
def posts() -> dict[str, Posterior]:
    options: dict[str, Any] = {"progressbar": False, "random_seed": 1}
    draws = dict.fromkeys(NAMES, 100) | {"labelled": 600, "known_scale": 600}
    found = {c.__name__: bk.infer(c(), draws=draws[c.__name__], **options) for c in CASES if c is not counts}
    found["counts"] = bk.infer(counts(), draws=40, **options, **SAMPLED)
    found["known_scale"] = found["known_scale"].with_log_likelihood()
    return found


@pytest.fixture(scope="module")
def paths(posts: dict[str, Posterior], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every second one is a zarr store."""
    folder = tmp_path_factory.mktemp("saved") / "new"
    ends = {name: (".nc", ".zarr")[k % 2] for k, name in enumerate(NAMES)}
    return {name: posts[name].save(folder / f"{name}{ends[name]}") for name in NAMES}


@pytest.fixture(scope="module")
def elsewhere(posts: dict[str, Posterior], paths: dict[str, Path]) -> Any:
    """What another process reads from the files, and the posteriors that were sent to it and come back."""

    def read(paths: dict[str, Path], posts: dict[str, Any]) -> Any:
        import bayeskit as bk

        loaded = {name: bk.load(path) for name, path in paths.items()}
        return {name: (str(p), p.summary()) for name, p in loaded.items()}, loaded, posts

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        (found,) = joblib.Parallel(n_jobs=2, backend="loky")(
            [joblib.delayed(read)(paths, {name: posts[name] for name in PICKLED})]
        )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_another_process_reads_what_was_saved(name: str, posts: dict[str, Posterior], elsewhere: Any) -> None:
    post, (text, summary), back = posts[name], elsewhere[0][name], elsewhere[1][name]
    assert text == str(post) == str(back)
    pd.testing.assert_frame_equal(summary, post.summary(), check_exact=True)
    for held in ("plan", "method", "random_seed", "seconds", "account", "diagnostics"):
        assert getattr(back, held) == getattr(post, held)
    assert repr(back.log_evidence) == repr(post.log_evidence) and repr(back.certificate) == repr(post.certificate)
    assert list(back.tree.children) == list(post.tree.children)
    for group, node in post.tree.children.items():
        assert list(back.tree[group].data_vars) == list(node.data_vars)
        numbers = [n for n, v in node.to_dataset().variables.items() if v.dtype != object]
        assert all(node[n].equals(back.tree[group][n]) and node[n].dtype == back.tree[group][n].dtype for n in numbers)
    assert [*back.marginals] == [*post.marginals]
    for marginal in post.marginals.values():
        other, at = back.marginals[marginal.name], np.asarray(marginal.mean())
        assert (other.family, other.dims, other.label) == (marginal.family, marginal.dims, marginal.label)
        np.testing.assert_array_equal(other.logpdf(at), marginal.logpdf(at))
        if marginal.joint is not None and marginal.family != "student_t":
            np.testing.assert_array_equal(other.joint.logpdf(at), marginal.joint.logpdf(at))


@pytest.mark.parametrize("name", PICKLED)
def test_posteriors_are_pickled_with_their_models(name: str, posts: dict[str, Posterior], elsewhere: Any) -> None:
    post, back = posts[name], elsewhere[2][name]
    assert str(back) == str(post)
    pd.testing.assert_frame_equal(back.summary(), post.summary(), check_exact=True)
    assert [rv.name for rv in back.model.free_RVs] == [rv.name for rv in post.model.free_RVs]


@pytest.mark.slow
def test_pickle_and_joblib_files(posts: dict[str, Posterior], tmp_path: Path) -> None:
    post = posts["labelled"]
    joblib.dump(post, tmp_path / "post.joblib")
    for back in (joblib.load(tmp_path / "post.joblib"), pickle.loads(pickle.dumps(post))):
        new = {"x": np.array([0.5])}
        assert back.predict(new, random_seed=2).equals(post.predict(new, random_seed=2))
    comparison = bk.compare([post, posts["known_scale"]])
    assert str(pickle.loads(pickle.dumps(comparison))) == str(comparison)


@pytest.mark.slow
def test_what_is_loaded_is_compared_as_what_was_saved(posts: dict[str, Posterior], elsewhere: Any) -> None:
    _, loaded, _ = elsewhere
    names = ("labelled", "known_scale", "mixture", "nothing_free")
    expected = str(bk.compare({name: posts[name] for name in names}))
    assert expected == str(bk.compare({name: loaded[name] for name in names}))
    assert expected == str(bk.compare({name: (posts, loaded)[k % 2][name] for k, name in enumerate(names)}))
    with pytest.raises(ModelError, match="do not explain the same data"):
        bk.compare([loaded["labelled"], loaded["counts"]])


@pytest.mark.slow
def test_a_report_says_the_same(posts: dict[str, Posterior], elsewhere: Any, paths: Any, tmp_path: Path) -> None:
    def page(post: Posterior, name: str) -> str:
        return bk.report(replace(post, tree=post.tree.copy()), tmp_path / name).read_text(encoding="utf-8")

    def words(page: str) -> dict[str, list[str]]:
        """Of each section, pictures left out."""
        found = re.findall(r"<section id=\"(\w+)\">(.*?)</section>", page, flags=re.S)
        return {key: re.sub(r"<figure>.*?</figure>", "", text, flags=re.S).split() for key, text in found}

    whole, alone = page(posts["labelled"], "whole.html"), page(elsewhere[1]["labelled"], "alone.html")
    judged = {"verdict", "predictive", "learning", "loo", "sensitivity"}  # what needs the model
    assert {k: v for k, v in words(whole).items() if k not in judged} == {
        k: v for k, v in words(alone).items() if k not in judged
    }
    assert "the posterior was loaded without its model" in alone
    assert "Not looked at: the fit to the data, single observations and the prior&#x27;s influence." in alone
    assert page(bk.load(paths["labelled"], model=labelled()), "again.html") == whole
    seen = replace(posts["labelled"], tree=posts["labelled"].tree.copy())
    seen.posterior_predictive(random_seed=1)
    with styled():
        loaded = bk.load(seen.save(tmp_path / "seen.nc"))
        picture = sections.predictive_section(Subject(loaded)).pictures[0]
    assert "predictive interval (blue)" in picture.caption


@pytest.mark.parametrize(
    "query",
    [
        lambda p: p.predict({"x": [1.0]}),
        lambda p: p.posterior_predictive(),
        lambda p: p.prior_predictive(),
        lambda p: p.with_log_likelihood(),
        lambda p: bk.states(p),
        lambda p: bk.classify(p, {"x": [1.0]}),
        lambda p: bk.relabel(p),
        lambda p: bk.collapse(p.model),
        lambda p: bk.infer(p.analysis),
    ],
)
def test_what_needs_the_model_says_so(query: Callable[[Posterior], Any], elsewhere: Any) -> None:
    with pytest.raises(ModelError, match=r"loaded without it: bayeskit\.load\(path, model=model\)"):
        query(elsewhere[1]["labelled"])


def test_with_its_model_everything_can_be_asked(posts: dict[str, Posterior], paths: dict[str, Path]) -> None:
    post, back = posts["labelled"], bk.load(paths["labelled"], model=labelled())
    new = {"x": np.array([0.5, 2.0])}
    assert back.predict(new, random_seed=3).equals(post.predict(new, random_seed=3))
    chained = bk.load(paths["chain"], model=chain())
    assert bk.states(chained).smooth().equals(bk.states(posts["chain"]).smooth())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: labelled(prior=2.5), "mu has another density, or data"),
        (lambda: labelled(y=Y + 1e-3), "y has another density, or data"),
        (
            lambda: labelled(y=Y[[2, 1, 0, 3, 4, 5]]),
            "the values of y are others than the posterior's, or in another order",
        ),
        (known_scale, "the model has the variables mu, y"),
    ],
)
def test_another_model_is_refused(build: Callable[[], pm.Model], why: str, paths: dict[str, Path]) -> None:
    with pytest.raises(DataError, match=why):
        bk.load(paths["labelled"], model=build())


def test_arviz_opens_the_files(posts: dict[str, Posterior], paths: dict[str, Path]) -> None:
    post, tree = posts["labelled"], az.from_netcdf(paths["labelled"])
    pd.testing.assert_frame_equal(az.summary(tree), az.summary(post.tree))
    assert tree.attrs["log_evidence"] == post.log_evidence.value and tree.attrs["label"] == "exact"
    assert tree.attrs["plan"] == str(post.plan) and tree.attrs["seed"] == "1"
    known = xr.open_datatree(paths["known_scale"], engine="zarr")
    assert az.loo(known).elpd == az.loo(posts["known_scale"].tree).elpd


def test_what_was_loaded_is_saved_again(elsewhere: Any, tmp_path: Path) -> None:
    for name in ("labelled", "known_scale"):
        back = elsewhere[1][name]
        again = bk.load(back.save(tmp_path / f"{name}.nc"))
        assert str(again) == str(back) and again.tree.attrs == back.tree.attrs
    assert elsewhere[1]["known_scale"].with_log_likelihood().tree.children.keys() >= {"log_likelihood", "log_prior"}


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_says_the_same(paths: dict[str, Path], tmp_path: Path) -> None:
    whole, rng, refused = paths["labelled"].read_bytes(), np.random.default_rng(5), 0
    path = tmp_path / "damaged.nc"
    expected = bk.load(paths["labelled"])
    for k in range(12):
        at = int(rng.integers(len(whole)))
        path.write_bytes(whole[:at] if k < 4 else whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            back = bk.load(path)
        except DataError as error:
            assert "is damaged, or no posterior" in str(error)
            refused += 1
        else:
            assert str(back) == str(expected) and back.tree.equals(expected.tree)
    assert refused >= 4


def test_files_of_others_and_later_ones_are_refused(paths: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        bk.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("a text")
    xr.Dataset({"x": 1.0}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    (tmp_path / "other.zarr").mkdir()
    for name in ("text.nc", "other.nc", "other.zarr"):
        with pytest.raises(DataError, match="is damaged, or no posterior that bayeskit saved"):
            bk.load(tmp_path / name)
    shutil.copy(paths["labelled"], tmp_path / "later.nc")
    with h5py.File(tmp_path / "later.nc", "r+") as file:
        file["bayeskit"].attrs["format"] = 2
        file.attrs["bayeskit_version"] = "9.0"
    with pytest.raises(DataError, match=r"saved by a later bayeskit \(9\.0\)"):
        bk.load(tmp_path / "later.nc")


def test_nothing_is_left_behind_or_half_replaced(
    posts: dict[str, Posterior], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = posts["known_scale"]
    for path in (tmp_path / "post.txt", tmp_path / "post"):
        with pytest.raises(OptionError, match=r"must end in \.nc"):
            post.save(path)
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(OptionError, match="cannot write"):
        post.save(tmp_path / "folder.nc")
    with monkeypatch.context() as patched, pytest.raises(OptionError, match="needs the package zarr: pip install zarr"):
        patched.setattr(saved, "find_spec", lambda _: None)
        post.save(tmp_path / "post.zarr")
    path = post.save(tmp_path / "post.nc")
    before = path.read_bytes()
    with monkeypatch.context() as patched, pytest.raises(OptionError, match="No space left"):
        patched.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        post.save(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.nc", "post.nc"]
    with pytest.raises(BayeskitError, match="there are no draws to save"):
        replace(post, tree=xr.DataTree()).save(path)


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_not_the_end_of_python(posts: dict[str, Posterior], tmp_path: Path) -> None:
    """HDF5 itself would crash where it cannot write, later and with all else that is open."""
    path = posts["known_scale"].save(tmp_path / "post.nc")
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    asked = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in (500, len(before) // 2, len(before) - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(OptionError, match=r"cannot write the posterior .*File too large"):
                posts["known_scale"].save(path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_bytes() == before
        assert [entry.name for entry in tmp_path.iterdir()] == ["post.nc"]
    signal.signal(signal.SIGXFSZ, asked)
