"""The formulas behind the figures, by name: written once, shown as MathML on every page that refers to them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from firstlight._internal.errors import unknown_name


@dataclass(frozen=True)
class Formula:
    """One formula in words and signs.

    Parameters
    ----------
    title : str
        What it defines.
    latex : str
        The formula.
    words : str
        What its letters mean.
    source : str
        The paper that uses it.
    """

    title: str
    latex: str
    words: str
    source: str


FIRST_LAYER, PC_BIAS, ANSATZ = "FirstLayer", "PCBias", "CNFA"
IDENTITY, LINEARIZED = "IdentityCrisis", "Linearized"

FORMULAS: dict[str, Formula] = {
    # the first layer
    "components": Formula(
        "Patch components",
        r"\frac{1}{n} \sum_{x} (x - \bar{x})(x - \bar{x})^{\top} = \sum_{i} \omega_i\, p_i p_i^{\top}",
        "x runs over all patches that the first layer sees; pᵢ are the components, ωᵢ their variances.",
        FIRST_LAYER,
    ),
    "energy": Formula(
        "Energy profile",
        r"e_i = \sqrt{\sum_{j} \langle A_j, p_i \rangle^2}",
        "Aⱼ is the j-th filter of the first layer as a vector, pᵢ the i-th patch component. The paper calls eᵢ an "
        "energy; it is an amplitude, whose square is the energy.",
        FIRST_LAYER,
    ),
    "consistency": Formula(
        "Agreement of two profiles",
        r"r(e, e') = \frac{\sum_i (e_i - \bar{e})(e'_i - \bar{e}')}"
        r"{\sqrt{\sum_i (e_i - \bar{e})^2 \sum_i (e'_i - \bar{e}')^2}}",
        "Pearson correlation over the m components; that of unrelated profiles has a spread of about 1 / √(m − 1).",
        FIRST_LAYER,
    ),
    "update energy": Formula(
        "Amplitude of the update",
        r"e_i(t) = \lVert (A(t) - A(0))\, p_i \rVert",
        "A(t) holds the filters after t steps, one in each row.",
        FIRST_LAYER,
    ),
    "implicit bias": Formula(
        "Profile without labels",
        r"e_i^2 \approx a\, \mathbb{E}_{y} \lVert p_i^{\top} \Phi_{\tau}(C)\, K^{\top} y \rVert^2 + \sigma^2, \quad "
        r"\Phi_{\tau}(C) = \frac{1 - e^{-\tau C}}{C}",
        "Gradient flow of a linear network on mean patches K with covariance C, for random labels y. Only the time τ, "
        "the scale a and the level σ² are fitted.",
        FIRST_LAYER,
    ),
    # the learning order
    "accessibility": Formula(
        "Accessibility",
        r"\mathrm{acc}(x) = \frac{1}{N E} \sum_{i=1}^{N} \sum_{e=1}^{E} \mathbf{1}[f_i^e(x) = y(x)]",
        "The share of N networks and E epochs that classify x correctly: 1 if all do from the first epoch on, 0 if "
        "none ever does.",
        PC_BIAS,
    ),
    "constancy": Formula(
        "Agreement on the order",
        r"r(\mathrm{acc}_1, \mathrm{acc}_2)",
        "Pearson correlation over images of the accessibility in two ensembles of networks from different seeds.",
        PC_BIAS,
    ),
    "critical component": Formula(
        "Critical component",
        r"\mathrm{crit}(x) = \min \{ k : f_j(x) = y(x) \text{ for all } j \ge k \}",
        "fⱼ is a linear classifier that sees the first j principal components of the images: how many it needs for x.",
        PC_BIAS,
    ),
    "discriminability": Formula(
        "Discriminability",
        r"\mathrm{disc}(x) = \frac{1}{k} \sum_{z \in N_k(x)} \mathbf{1}[y(z) = y(x)]",
        "The share of the k nearest neighbours of x that are of its class.",
        PC_BIAS,
    ),
    "suspicion": Formula(
        "Suspicion of a wrong label",
        r"(1 - w)\, \mathrm{rank}(1 - \max_e \mathrm{acc}_e(x)) + w\, \mathrm{rank}(1 - \mathrm{disc}(x))",
        "Learned late by every ensemble e, and among neighbours of another class; w = 0.1.",
        "ours",
    ),
    # the ansatz
    "ansatz": Formula(
        "Feature ansatz",
        r"W^{\top} W \propto G = \frac{1}{n} \sum_{x} \sum_{p} \nabla_{h[p]} f(x)\, \nabla_{h[p]} f(x)^{\top} "
        r"= W^{\top} Q\, W",
        "W holds the filters of a layer, h[p] the patch of its input at place p, f the outputs. The figure shows the "
        "correlation of both sides.",
        ANSATZ,
    ),
    "isotropy": Formula(
        "Isotropy of the gradients",
        r"\cos(Q, I) = \frac{\mathrm{tr}\, Q}{\sqrt{k}\, \lVert Q \rVert_F}",
        "Q is the covariance of the gradients at the outputs of a layer with k filters; 1: no preferred direction.",
        "ours",
    ),
    "eigenvectors": Formula(
        "Leading patterns",
        r"M v_i = \lambda_i v_i, \quad M = W^{\top} W \text{ or } M = G",
        "The share of vᵢ is λᵢ divided by the trace of M.",
        ANSATZ,
    ),
    "maps": Formula(
        "Where a layer looks",
        r"\lVert M^{1/2}\, h[p] \rVert = \sqrt{h[p]^{\top} M\, h[p]}",
        "M is the feature matrix or the gradient outer product of the layer, h[p] the patch at place p.",
        ANSATZ,
    ),
    "kernel": Formula(
        "Kernel that learns features",
        r"M_{t+1} = \frac{1}{n} \sum_{x, p} \nabla_{h[p]} f_t(x)\, \nabla_{h[p]} f_t(x)^{\top}, \quad "
        r"f_t(x) = K_{M_t}(x, X) (K_{M_t}(X, X) + \lambda I)^{-1} y",
        "Every round solves a ridge regression with the kernel of metric M and replaces M.",
        ANSATZ,
    ),
    # the identity task
    "identity score": Formula(
        "Copy or memorise",
        r"r(f(x), x) \quad \text{and} \quad r(f(x), \hat{x})",
        "x is an unseen image, x̂ the one that f was trained to copy. A network that copies has the first near "
        "1, one that memorised the second.",
        IDENTITY,
    ),
    "response": Formula(
        "Response by angle",
        r"\cos(f(x_{\rho}), x_{\rho}) \quad \text{and} \quad \cos(f(x_{\rho}), \hat{x}), \quad "
        r"\cos(x_{\rho}, \hat{x}) = \rho",
        "xᵨ is an image at cosine ρ with the training image x̂.",
        IDENTITY,
    ),
    # training, and the layers of one's own model
    "loss": Formula(
        "Cross-entropy",
        r"L = -\frac{1}{n} \sum_{x} \log \frac{\exp f_{y(x)}(x)}{\sum_{c} \exp f_c(x)}",
        "f(x) has one output for each class c.",
        "textbook",
    ),
    "linearisation": Formula(
        "Linearisation at the initial weights",
        r"f_{lin}(u, x) = f(w_0, x) + J(x)\, u, \quad J(x) = \frac{\partial f(w_0, x)}{\partial w}",
        "w₀ are the initial weights, u their displacement: linear in u, not in the image x.",
        LINEARIZED,
    ),
    "regime": Formula(
        "From lazy to learning",
        r"\frac{1}{2} \left( 1 - \cos(\Theta_0, \Theta) \right) + \frac{1}{2} "
        r"\frac{\lVert f(w) - f_{lin}(w - w_0) \rVert}{\lVert f(w) - f(w_0) \rVert}, \quad \Theta = J J^{\top}",
        "Θ is the tangent kernel between some images after training, Θ₀ before. 0 is a linear model; the second "
        "part counts at most 1.",
        LINEARIZED,
    ),
    "movement": Formula(
        "Distance from the initial weights",
        r"\frac{\lVert W - W_0 \rVert_F}{\lVert W_0 \rVert_F}",
        "W are the weights of a layer, W₀ those it started from.",
        LINEARIZED,
    ),
    "effective rank": Formula(
        "Directions in use",
        r"\exp \Big( -\sum_i s_i \log s_i \Big), \quad s_i = \frac{\sigma_i^2}{\sum_j \sigma_j^2}",
        "σᵢ are the singular values of the filters of a layer.",
        "textbook",
    ),
}


@dataclass(frozen=True)
class ShownFormula:
    """A formula as the page shows it."""

    name: str
    anchor: str
    formula: Formula
    mathml: str


def formulas_of(names: Iterable[str]) -> dict[str, ShownFormula]:
    """Formulas by name, each once, in the order of first use."""
    shown = {}
    for name in dict.fromkeys(names):
        if name not in FORMULAS:
            raise unknown_name("formula", name, FORMULAS)
        anchor = "formula-" + name.replace(" ", "-")
        shown[name] = ShownFormula(name, anchor, FORMULAS[name], mathml(FORMULAS[name].latex))
    return shown


@cache
def mathml(latex: str) -> str:
    """Return MathML, which browsers draw without any script.

    Examples
    --------
    >>> mathml("e_i")[:5]
    '<math'
    """
    from latex2mathml.converter import convert  # imported when needed: 50 ms

    return str(convert(latex, display="block"))
