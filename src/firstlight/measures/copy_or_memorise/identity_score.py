"""Does an image-to-image network copy, memorise, or do neither? Numbers first, then one word."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.devices import device_of, follows_device
from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight.data.synthetic import correlated_images
from firstlight.maths.patches import sobel_magnitude

Similarity = Literal["cosine", "pearson"]
VERDICTS = ("identity", "edge detector", "constant", "noise", "none")

COPIES = 0.9  # claim id.fig3.shallow_cnn: Pearson to the identity on unseen digits
MEMORISES = 0.8  # claim id.fig3.deep_cnn: Pearson to the constant, and above that to the identity
FOLLOWS_EDGES = 0.5  # Pearson with the Sobel magnitude
IS_BLURRED = 0.5  # claim id.fig3.edge_detector: an input seen through at all correlates above this
IS_NOISE = 0.1  # claim id.fig2.shallow_fcn: both cosines at rho = 0 below this


def similarities(
    a: Float[Tensor, "n c h w"], b: Float[Tensor, "n c h w"], *, kind: Similarity = "pearson"
) -> Float[Tensor, " n"]:
    """Cosine or Pearson correlation of corresponding images, in float64.

    A zero image has no direction and, for "pearson", a flat one no contrast: nothing resembles it, and
    its similarity counts as 0. (The functions of `maths.correlation` refuse such input instead.)

    Examples
    --------
    >>> x = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> similarities(x, 1 - x).item(), similarities(x, torch.ones_like(x)).item()
    (-1.0, 0.0)
    """
    if kind not in ("cosine", "pearson"):
        raise unknown_name("similarity", kind, ("cosine", "pearson"))
    if a.shape != b.shape:
        raise InvalidInput(f"`a` and `b` must have one shape; got {tuple(a.shape)} and {tuple(b.shape)}.")
    units = [_unit_rows(name, rows, centred=kind == "pearson") for name, rows in (("a", a), ("b", b))]
    # rounding of two unit vectors may exceed 1 by a few units in the last place
    return (units[0] * units[1]).sum(1).clamp(-1, 1)


def _unit_rows(name: str, images: Tensor, *, centred: bool) -> Tensor:
    rows = images.double().flatten(1)
    if not rows.isfinite().all():
        raise InvalidInput(f"`{name}` holds NaN or infinite pixels; a diverged network has no similarity.")
    size = rows.abs().amax(1, keepdim=True)
    if centred:
        rows = rows - rows.mean(1, keepdim=True)
    # what the mean leaves of a flat image is rounding error of its size
    alive = rows.abs().amax(1, keepdim=True) > 1e-12 * size
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(alive, rows / torch.where(length > 0, length, 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class IdentityScore(Result):
    """How near outputs are to the two reference functions, image by image.

    Parameters
    ----------
    similarity : str
        "cosine" or "pearson".
    identity, constant : Tensor of shape (n,)
        Similarity of each output to its input, and to the nearest training image.
    mse_identity, mse_constant : Tensor of shape (n,)
        Mean squared error against the same.
    """

    similarity: str
    identity: Float[Tensor, " n"]
    constant: Float[Tensor, " n"]
    mse_identity: Float[Tensor, " n"]
    mse_constant: Float[Tensor, " n"]

    @property
    def means(self) -> dict[str, float]:
        """Means over the images, by name."""
        names = ("identity", "constant", "mse_identity", "mse_constant")
        return {name: float(getattr(self, name).mean()) for name in names}


def identity_score(
    outputs: Float[Tensor, "n c h w"],
    inputs: Float[Tensor, "n c h w"],
    training: Float[Tensor, "k c h w"],
    *,
    similarity: Similarity = "pearson",
) -> IdentityScore:
    """Compare outputs with their inputs (the identity) and with the training images (the constant).

    With several training images the constant function is that of the training image nearest to each
    output. Use cosine for images at a given angle, Pearson for natural images (E-74).

    Parameters
    ----------
    outputs, inputs : Tensor of shape (n, c, h, w)
        One output per input, of equal shape.
    training : Tensor of shape (k, c, h, w)
        What the network was trained to reproduce.
    similarity : Similarity, default 'pearson'
        "cosine" or "pearson".
    """
    # the nearest training image, output by output: a network may memorise several
    references = training[:, None].expand(-1, *outputs.shape)
    to_constant = torch.stack([similarities(outputs, r, kind=similarity) for r in references])
    errors = torch.stack([_mse(outputs, r) for r in references])
    return IdentityScore(
        similarity=similarity,
        identity=similarities(outputs, inputs, kind=similarity),
        # nearest by either measure on its own: cosine and error may choose different images
        constant=to_constant.amax(0),
        mse_identity=_mse(outputs, inputs),
        mse_constant=errors.amin(0),
    )


def _mse(a: Tensor, b: Tensor) -> Tensor:
    return (a.double() - b.double()).square().flatten(1).mean(1)


@dataclass(frozen=True, kw_only=True)
class Response(Result):
    """Score over the cosine between test and training image: one row of the papers' heat maps."""

    rhos: Float[Tensor, " r"]
    identity: Float[Tensor, " r"]
    constant: Float[Tensor, " r"]
    mse_identity: Float[Tensor, " r"]
    mse_constant: Float[Tensor, " r"]


@follows_device
def response(
    model: nn.Module,
    image: Float[Tensor, "c h w"],
    *,
    draws: int = 3,
    seed: int = 0,
) -> Response:
    """Cosine and error to both references over images at cosine rho with the training image.

    Parameters
    ----------
    model : torch.nn.Module
        Any network from images to images of equal shape.
    image : Tensor of shape (c, h, w)
        What it was trained to reproduce.
    draws : int, default 3
        Images per cosine, averaged.
    seed : int, default 0
        Seed for the test images.
    """
    grid = torch.linspace(0, 1, 11, dtype=torch.float64)
    # cosine ρ with the training image: at 1 both references coincide, at 0 they are furthest apart
    tests = correlated_images(image, grid, draws=draws, seed=seed).flatten(0, 1).to(image.dtype)
    score = identity_score(image_outputs(model, tests), tests, image[None], similarity="cosine")
    rows = {
        name: getattr(score, name).reshape(len(grid), draws).mean(1)
        for name in ("identity", "constant", "mse_identity", "mse_constant")
    }
    return Response(rhos=grid, **rows)


@follows_device
@torch.no_grad()
def image_outputs(
    model: nn.Module, images: Float[Tensor, "n c h w"], *, batch_size: int = 64
) -> Float[Tensor, "n c h w"]:
    """Outputs in evaluation mode, which must have the shape of the inputs; the model is left as it was."""
    device = device_of(model)
    with evaluating(model):
        outputs = torch.cat([model(block.to(device)).cpu() for block in torch.split(images, batch_size)])
    if outputs.shape != images.shape:
        raise InvalidInput(
            f"`model` must return images of the shape it gets, {tuple(images.shape)}; "
            f"it returned {tuple(outputs.shape)}."
        )
    return outputs


@dataclass(frozen=True, kw_only=True)
class EdgeScore(Result):
    """Whether outputs follow contours rather than the input itself.

    Parameters
    ----------
    edges : Tensor of shape (n,)
        Pearson of the magnitude of each output with the Sobel magnitude of its input.
    copy : Tensor of shape (n,)
        Pearson of each output with its input.
    """

    edges: Float[Tensor, " n"]
    copy: Float[Tensor, " n"]

    @property
    def relative(self) -> float:
        """Mean correlation with the edges over mean correlation with the input (its size, 0.01 at least).

        Any loss of copying raises it, so compare with the initial network.
        """
        return float(self.edges.mean()) / max(abs(float(self.copy.mean())), 0.01)


def edge_score(outputs: Float[Tensor, "n c h w"], inputs: Float[Tensor, "n c h w"]) -> EdgeScore:
    """Correlate the magnitude of the outputs with the contours of the inputs."""
    return EdgeScore(
        # an edge has either sign behind a convolution, the Sobel magnitude has none
        edges=similarities(outputs.abs(), sobel_magnitude(inputs)),
        copy=similarities(outputs, inputs),
    )


def behaviour(*, identity: float, constant: float, edges: float, at_zero: tuple[float, float]) -> str:
    """One word for what a network does, from measured numbers.

    In this order: "identity" if it copies unseen natural images (Pearson above 0.9); "constant" if its
    outputs resemble the training image instead (above 0.8, and more than the input); "edge detector" if
    they follow the contours (above 0.5, and more than the input); "noise" if they resemble neither
    reference, on images orthogonal to the training image (both cosines within 0.1 of zero) nor on natural
    ones (both within 0.5); else "none".

    Parameters
    ----------
    identity, constant, edges : float
        Mean Pearson correlations on unseen natural images.
    at_zero : tuple of 2 float
        Mean cosines to identity and constant at rho = 0.

    Examples
    --------
    >>> behaviour(identity=0.97, constant=0.4, edges=0.3, at_zero=(0.9, 0.0))
    'identity'
    >>> behaviour(identity=0.3, constant=0.2, edges=0.1, at_zero=(0.02, -0.01))
    'noise'
    """
    if identity > COPIES and identity > constant:
        return "identity"
    if constant > MEMORISES and constant > identity:
        return "constant"
    if edges > FOLLOWS_EDGES and edges > abs(identity):
        return "edge detector"
    if max(map(abs, at_zero)) < IS_NOISE and max(abs(identity), abs(constant)) < IS_BLURRED:
        return "noise"
    return "none"


def behaviour_of(score: IdentityScore, edges: EdgeScore, curve: Response) -> str:
    """The word for a network of which all this was measured, scores and edges on unseen natural images."""
    return behaviour(
        identity=score.means["identity"],
        constant=score.means["constant"],
        edges=float(edges.edges.mean()),
        at_zero=(float(curve.identity[0]), float(curve.constant[0])),
    )
