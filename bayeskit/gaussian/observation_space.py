"""A Gaussian block with more variables than data: its integral on the side of the data.

With the block's own prior exp(−½|Rδ + r|²) and the data exp(−½|Bδ + b|²), b of length N < D, in z = Rδ + r

    log ∫ exp(−½|Rδ + r|² − ½|Bδ + b|²) dδ = ½ D log 2π − log |R| − ½ log |A| − ½ cᵀA⁻¹c,

    A = I + UUᵀ,   U = BR⁻¹,   c = b − Ur,

N × N where Λ = RᵀR + BᵀB is D × D. As the noise vanishes, Λ goes to a matrix of rank N to working precision, while A is
as well conditioned as the design. A is never formed: its triangular factor is that of the rows (Uᵀ, I), the condition
of which is the square root.

Two things are constant in φ. Where each row of the prior is (Tδ)_i times a factor, R = diag(ρ) T with a constant T, and
with the rows of the data in terms of the same kind, B = Σ_f diag(g_f) M_f,

    U = Σ_f diag(g_f) (M_f T⁻¹) diag(1/ρ).

And where ρ is the same for more columns than there are rows, only the triangular factor of these columns counts,
(M T⁻¹)_k = L_k Q_k with orthonormal rows Q_k: an evaluation then costs the same for a hundred and for 10⁵ coefficients.
With one g for all rows, as in a regression, the singular values of one class of columns are all of it that counts: an
evaluation takes O(N) for one class, and O(N k²) with k columns of other classes, such as that of an intercept
(:mod:`bayeskit.gaussian.single_design`). That is worth it for more rows than variables, too: D + 1 stand for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.banded_layout import BANDED_FROM, layout
from bayeskit.gaussian.hierarchical_prior import HierarchicalPrior, Weighted, hierarchical_prior
from bayeskit.gaussian.separable_forms import Form, Term, constant
from bayeskit.gaussian.separated import factor_by_row, recentred, root_weight, stacked_matrix
from bayeskit.gaussian.single_design import SingleDesign, dense, single_design
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph

__all__ = ["DataSide", "data_side"]

ENTRIES = 20_000_000  # constants kept
TALL = 2_000_000  # of data with more rows than θ has entries
LEAST = 12  # entries of θ from which such data are made short
FEW = 8  # columns made orthogonal one by one


@dataclass(frozen=True, eq=False)
class DataSide(HierarchicalPrior):
    """R, r, B and b of one block, for N rows of data. Where r = 0, nothing cancels in c."""

    designs: tuple[np.ndarray, ...]  # M_f T⁻¹, of shape (N, D)
    factors: Graph  # g_f, of shape (number of designs, N)
    offset: Graph  # b, of length N
    single: SingleDesign | None  # U with one g for all rows, where it is so

    @property
    def rows(self) -> int:
        """N."""
        return int(self.designs[0].shape[0])

    @property
    def size(self) -> int:
        """D."""
        return len(self.origin)

    @property
    def residual(self) -> Graph:
        """c."""
        total: Any = self.offset
        if self.centre is not None:
            for k, design in enumerate(self.designs):
                total = total + self.factors[k] * pt.dot(pt.constant(design), self.centre)
        return pt.specify_shape(total, (self.rows,))

    @property
    def diagonal(self) -> bool:
        """Whether the singular values of the largest class are worth it."""
        return self.single is not None and len(self.single.border) <= FEW

    @property
    def weight(self) -> int:
        """About how many numbers the evaluation of the integral holds."""
        if self.single is not None and self.diagonal:
            return 3 * self.rows * (1 + len(self.single.border))
        count = len(self.designs) * self.rows
        columns = sum(min(int(n), count) for n in np.bincount(self.classes))
        return self.rows * (self.rows + columns)


def data_side(prior: Sequence[Weighted], data: Sequence[Weighted], theta: VectorLayout) -> DataSide | None:
    """A block on the side of its data, from the squares of its own prior and all others; no weight is positive.

    None where the prior is not that of a hierarchy of few levels with one scale a row, where Λ is a band, or where the
    data have more rows than θ has entries and no short ones stand for them.
    """
    size = theta.size
    rows = sum(form.size for form, _ in data)
    data = [_absorbed(form, weight) for form, weight in data]
    moving = [[t for t in form.terms if not t.pure] for form, _ in data]
    count = max((len(terms) for terms in moving), default=0)
    tall = rows > size
    if not 0 < count * rows * size <= (TALL if tall else ENTRIES) or (tall and size < LEAST):
        return None
    root = hierarchical_prior(prior, theta)
    if root is None:
        return None
    origin = theta.split(root.origin)
    matrices, factors = zip(*(_design(data, moving, slot, theta) for slot in range(count)), strict=True)
    designs = [m @ root.inverse for m in matrices]
    single = single_design(data, designs, root, origin)
    diagonal = single is not None and len(single.border) <= FEW
    if not _worthwhile(sum(abs(m) for m in matrices), root.root, diagonal):
        return None
    single = single and replace(single, matrix=dense(single.matrix))
    offsets = []
    for form, weight in data:
        total: Any = pt.zeros(form.size)
        for term in recentred(form, origin).terms:
            total = total + factor_by_row(term) * term.offset
        offsets.append(root_weight(weight) * total)
    found = DataSide(
        **vars(root),
        designs=tuple(map(dense, designs)),
        factors=pt.stack(factors),
        offset=pt.concatenate(offsets),
        single=single,
    )
    return _shortened(found) if tall else found


def _shortened(side: DataSide) -> DataSide | None:
    """With data of D + 1 rows for those of more, where these are g (M diag(h) z + b) with one b for all φ.

    With M = QR they are g (R diag(h) z + Qᵀb, |b − QQᵀb|), of which the second is the residual: of its square as
    |b|² − |Qᵀb|² nothing would be left where noise is small.
    """
    single = side.single
    if single is None or single.offset is None or len(single.border) > FEW:
        return None
    basis, triangle = np.linalg.qr(single.matrix)
    number, offset = single.offset
    within = basis.T @ offset
    apart = np.linalg.norm(offset - basis @ within)
    below = ((0, 1), (0, 0))
    return replace(
        side,
        designs=tuple(np.pad(basis.T @ design, below) for design in side.designs),
        factors=side.factors[:, : len(triangle) + 1],
        offset=single.factor * number * np.append(within, apart),
        single=replace(single, matrix=np.pad(triangle, below)),
    )


def _design(data: Sequence[Weighted], moving: list[list[Term]], slot: int, theta: VectorLayout) -> tuple[Any, Graph]:
    """M_f and g_f, of the term ``slot`` of every node that has as many; M_f as an array where it is mostly dense."""
    matrices, factors = [], []
    for (form, weight), terms in zip(data, moving, strict=True):
        if slot < len(terms):
            matrices.append(_coefficients(terms[slot], theta))
            factors.append(root_weight(weight) * factor_by_row(terms[slot]))
        else:
            matrices.append(sparse.csr_array((form.size, theta.size)))
            factors.append(pt.ones(form.size))
    if len(matrices) == 1:
        return matrices[0], pt.concatenate(factors)
    return sparse.csr_array(sparse.vstack([sparse.csr_array(m) for m in matrices])), pt.concatenate(factors)


def _coefficients(term: Term, theta: VectorLayout) -> Any:
    """M of a term. 10⁷ numbers that are not zero are as fast to copy as they are slow to list."""
    blocks = {n: b for n, b in term.jacobian.blocks.items() if n in theta.slices}
    dense = [n for n, b in blocks.items() if not sparse.issparse(b.matrix)]
    if 2 * sum(theta.slices[n].stop - theta.slices[n].start for n in dense) < theta.size:
        return stacked_matrix(term.jacobian, theta)[:, : theta.size]
    result = np.zeros((term.jacobian.size, theta.size))
    for name, block in blocks.items():
        result[:, theta.slices[name]] = block.dense()
    return result


def _absorbed(form: Form, weight: Form) -> Weighted:
    """The same square with the constant part of its weight in the node: known standard errors leave no weights."""
    if len(weight.terms) != 1 or weight.terms[0].index is not None:
        return form, weight
    (term,) = weight.terms
    offset = term.offset
    if not offset.size or np.ptp(offset) == 0 or not (np.all(offset < 0) or np.all(offset > 0)):
        return form, weight
    even = replace(term, jacobian=constant(0.5 * np.sign(offset)).terms[0].jacobian)
    return form.times(np.sqrt(2.0 * np.abs(offset))), Form(weight.shape, (even,)).reshaped(weight.shape)


def _worthwhile(design: Any, root: sparse.csr_array, diagonal: bool) -> bool:
    """Whether Λ is dense, or small and made diagonal here: else a band or a hierarchy solve it as it stands."""
    rows, size = design.shape
    filled = np.diff(design.indptr) if sparse.issparse(design) else np.count_nonzero(design, axis=1)
    if size < BANDED_FROM:
        return bool(diagonal or 2 * np.sum(filled) >= rows * size)
    if np.sum(filled.astype(float) ** 2) > ENTRIES:
        return True
    design = sparse.csr_array(design)
    precision = sparse.coo_array(design.T @ design + abs(root).T @ abs(root))
    return not len(layout(size, *precision.coords).inner)
