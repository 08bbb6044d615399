"""Studies of what is exact: one layer, one convolution, constructions, ranks, counts."""

from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from, global_seed
from firstlight.data.synthetic import correlated_images
from firstlight.maths import PatchGeometry, cosine, extract_patches
from firstlight.models import build, parameter_count
from firstlight.questions.copy_or_memorise.images import identity_images
from firstlight.training import Recipe, train
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity import one_convolution as theory
from reproduce.studies.identity.exact_identity import identity_cnn, identity_fcn_linear, identity_fcn_relu


@study("id.construction.fcn", "id.construction.cnn", "id.rho_images")
class Constructions(Study):
    """Are the written-down networks the identity, and have the test images the angle they claim?"""

    # Networks up to `depth` layers, and images at some angles.
    depth: int = 5
    rhos: tuple[float, ...] = (0.0, 0.3, 0.9, 1.0)

    @torch.no_grad()
    def run(self) -> Measured:
        """Apply and compare."""
        generator = generator_from("constructions", self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def deviation(model: nn.Module, x: Tensor) -> float:
            return float((model.double()(x) - x).abs().max())

        x = draw(8, 1, 2, 5)
        makers = (identity_fcn_linear, identity_fcn_relu)
        dense = [deviation(make((1, 2, 5), depth=d), x) for make in makers for d in (1, 2, 4)]
        images = {c: draw(4, c, 9, 7) for c in (1, 3)}
        conv = [deviation(identity_cnn(c, depth=d), z) for c, z in images.items() for d in (1, self.depth)]
        base, rhos = draw(1, 28, 28), torch.tensor(self.rhos, dtype=torch.float64)
        made = correlated_images(base, rhos, draws=1, seed=self.seed)[:, 0].flatten(1)
        flat = base.flatten().expand_as(made)
        return {
            "deviation of the FCN": max(dense),
            "deviation of the CNN": max(conv),
            "deviation of the cosine": float((cosine(made, flat) - rhos).abs().max()),
            "deviation of the norm": float((made.norm(dim=1) / flat.norm(dim=1) - 1).abs().max()),
        }


CLAIMED = (3, 5, 7, 9, 13)


@study("id.thm2.mnist_rank")
class DigitRank(Study):
    """Do the patches of one standardised 7 span patch space, so that one layer learns the identity?"""

    # One image, and the sides of the filters.
    dataset: str = "mnist"  # also at smoke scale: the claim is about this digit
    side: int = 28
    sizes: tuple[int, ...] = (*CLAIMED, 29)

    def run(self) -> Measured:
        """Count."""
        seven = identity_images(self.dataset, side=self.side, seed=self.seed).training[0]
        systems = [theory.patch_system(seven, size=size) for size in self.sizes]
        flat = [theory.patch_system(torch.ones_like(seven), size=size) for size in self.sizes]
        return {
            "missing directions": by(self.sizes, [system.nullity for system in systems]),
            "missing directions of a flat image": by(self.sizes, [system.nullity for system in flat]),
        }


@study("id.thm2.error", "id.thm2.bound", "id.thm2.full_rank")
class OneConvolution(Study):
    """Is the error of one trained convolution the formula, below its bound, and zero at full rank?"""

    # Cases of the formula as (channels, side, filter), and draws of initial weights for the bound.
    cases: tuple[tuple[int, int, int], ...] = ((1, 4, 5), (2, 4, 5), (1, 6, 9))
    draws: int = 200
    delta: float = 0.05
    m0: float = 40.0  # the constant of the bound, fixed in advance

    def run(self) -> Measured:
        """Train, draw initial weights, compare."""
        generator = generator_from("one convolution", self.seed)
        deviation = max(_deviation(*case, generator) for case in self.cases)
        image = torch.rand(1, 4, 4, generator=generator, dtype=torch.float64)
        tests = torch.rand(20, 1, 4, 4, generator=generator, dtype=torch.float64)
        blank, white = torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1, 1).double()
        ratios = {
            "5 x 5 filter": _over_bound(self, image, tests, size=5, sigma=0.3, draw=generator),
            "one pixel": _over_bound(self, blank, white, size=1, sigma=0.1, draw=generator),
        }
        full = torch.randn(1, 12, 12, generator=generator, dtype=torch.float64)
        layer = _trained(full, 5, torch.randn(1, 1, 5, 5, generator=generator, dtype=torch.float64))
        other = torch.randn(10, 1, 15, 9, generator=generator, dtype=torch.float64)
        return {
            "deviation from the formula": deviation,
            "share of violations": by(ratios, [float((r > 1).double().mean()) for r in ratios.values()]),
            "largest error over bound": by(ratios, [float(r.max()) for r in ratios.values()]),
            "error at full rank": float((layer(other) - other).detach().abs().max()),
        }


def _trained(image: Tensor, size: int, initial: Tensor) -> nn.Conv2d:
    """Train one convolution to reproduce one image, by gradient descent at half the largest stable rate."""
    channels = image.shape[0]
    layer = nn.Conv2d(channels, channels, size, padding=size // 2, bias=False).double()
    layer.weight.data = initial.clone()
    system = theory.patch_system(image, size=size)
    rate = image.numel() / (2 * float(torch.linalg.matrix_norm(system.patches, 2)) ** 2)
    recipe = Recipe(loss="mse", lr=rate, steps=8000, batch_size=None, stop_below=1e-26)
    train(layer, image[None], image[None], recipe, show=False)
    return layer


def _deviation(channels: int, side: int, size: int, draw: torch.Generator) -> float:
    """Largest difference between the pixel errors of a trained convolution and the formula."""
    image = torch.randn(channels, side, side, generator=draw, dtype=torch.float64)
    shape = (channels, channels, size, size)
    initial = 0.2 * torch.randn(shape, generator=draw, dtype=torch.float64)
    layer = _trained(image, size, initial)
    test = torch.randn(1, channels, side, side, generator=draw, dtype=torch.float64)
    patches = extract_patches(test, PatchGeometry.square(size, padding=size // 2))[0]
    measured = (layer(test) - test).detach()[0].flatten(1).square().sum(0)
    formula = theory.pixel_errors(theory.patch_system(image, size=size), patches, initial=initial.flatten(1))
    return float((formula - measured).abs().max())


def _over_bound(
    cfg: OneConvolution,
    image: Tensor,
    tests: Tensor,
    *,
    size: int,
    sigma: float,
    draw: torch.Generator,
) -> Tensor:
    """Mean squared error over the bound, for every draw of Gaussian initial weights."""
    system = theory.patch_system(image, size=size)
    bound = theory.error_bound(system, sigma=sigma, largest_pixel=1.0, delta=cfg.delta, m0=cfg.m0)
    patches = extract_patches(tests, PatchGeometry.square(size, padding=size // 2)).flatten(0, 1)
    initial = sigma * torch.randn(cfg.draws, 1, size * size, generator=draw, dtype=torch.float64)
    errors = [theory.pixel_errors(system, patches, initial=weights).mean() for weights in initial]
    return torch.stack(errors) / bound


def _descended(x: Tensor, y: Tensor, initial: Tensor, steps: int) -> Tensor:
    """Gradient descent on least squares, step by step."""
    rate, w = 1 / float(torch.linalg.matrix_norm(x, 2)) ** 2, initial.clone()
    for _ in range(steps):
        w -= rate * x.mT @ (x @ w - y)
    return w


@study("id.thm1", "id.thm1.multi", "id.lemma1", "id.lemma2", "id.span")
class OneLayer(Study):
    """Does gradient descent on one layer end exactly where the theorem and the lemmas say?"""

    # Sizes, and steps of gradient descent that are really taken.
    inputs: int = 30
    examples: int = 5
    steps: int = 3000

    def run(self) -> Measured:
        """Take the steps and compare."""
        generator = generator_from("one layer", self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def copied(examples: int) -> float:
            x, initial = draw(examples, self.inputs), draw(self.inputs, self.inputs) / self.inputs**0.5
            end = _descended(x, x, initial, self.steps)
            test = draw(20, self.inputs)
            return float((test @ end - test @ theory.identity_layer(x, initial=initial)).abs().max())

        def lemma(n: int, d: int, outputs: int) -> float:
            x, y, initial = draw(n, d), draw(n, outputs), draw(d, outputs)
            end = _descended(x, y, initial, 10 * self.steps)
            if n >= d:
                return float((end - torch.linalg.lstsq(x, y).solution).abs().max())
            return float((end - initial - x.mT @ torch.linalg.solve(x @ x.mT, y - x @ initial)).abs().max())

        update = torch.linalg.svdvals(_first_layer_update(self, draw(1, self.inputs)))
        return {
            "deviation for one example": copied(1),
            "deviation for several examples": copied(self.examples),
            "deviation from lemma 1": lemma(6, 15, 4),
            "deviation from lemma 2": lemma(20, 6, 3),
            "second over first singular value of the update": float(update[1] / update[0]),
        }


def _first_layer_update(cfg: OneLayer, x: Tensor) -> Tensor:
    """What training three layers on one example changes in the first."""
    with global_seed("span", cfg.seed):
        layers = [nn.Linear(cfg.inputs, cfg.inputs, bias=False).double() for _ in range(3)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    before = layers[0].weight.detach().clone()
    recipe = Recipe(loss="mse", lr=0.05, momentum=0.9, steps=200, batch_size=None)
    train(model, x, x, recipe, show=False)
    return layers[0].weight.detach() - before


GREY = (1, 28, 28)

# family, depth, width, kernel, count
PUBLISHED = (
    ("fcn", 10, 2048, 0, 36_765_696),
    ("cnn", 20, 128, 5, 7_379_200),
    ("cnn", 20, 1024, 7, 924_944_384),
    ("cnn", 5, 128, 57, 160_526_592),
)
TEXT = (("fcn", 2, 2048, 0, 3_211_264), ("fcn", 4, 784, 0, 2_458_624))
LAYER = 26_214_400  # one 5x5 layer of 1024 channels

# every combination of the factors that the paper varies; its table lies in it
FCN_GRID = tuple(product(("fcn",), (1, 2, 4, 6, 10, 12), (784, 2048, 16_384), (0,)))
CNN_GRID = tuple(
    product(("cnn",), (1, 3, *range(5, 18), 19, 20, 24), (3, 128, 1024), (3, 5, 7, 9, 13, 17, 25, 29, 57))
)


def formula(family: str, depth: int, width: int, kernel: int, *, inputs: int = 784, channels: int = 1) -> int:
    """Count without biases, as the table counts."""
    ends, square = (inputs, 1) if family == "fcn" else (channels, kernel**2)
    return square * (ends**2 if depth == 1 else 2 * ends * width + (depth - 2) * width**2)


def built(family: str, depth: int, width: int, kernel: int) -> int:
    """Count of the network itself, without allocating it."""
    options: dict[str, Any] = {"units": width} if family == "fcn" else {"channels": width, "kernel": kernel}
    model = build(f"identity_{family}", shape=GREY, device="meta", depth=depth, bias=False, **options)
    return parameter_count(model)


@study("id.params.table1", "id.params.text")
class ParameterCounts(Study):
    """Do the networks have the published numbers of parameters?"""

    def run(self) -> Measured:
        """Count."""
        grid = (*FCN_GRID, *CNN_GRID, *(row[:-1] for row in PUBLISHED))
        layer = build("identity_cnn", shape=GREY, device="meta", depth=3, channels=1024, bias=False)
        middle = dict(layer.named_parameters())["conv2.weight"].numel()
        return {
            "printed entries that differ": sum(built(*row[:-1]) != row[-1] for row in PUBLISHED),
            "networks that differ from the formula": sum(formula(*entry) != built(*entry) for entry in grid),
            "deviation from quoted sizes": by(
                ("one hidden layer of 2048", "three hidden layers of 784", "5 x 5 layer of 1024 channels"),
                [*(abs(built(*row[:-1]) - row[-1]) for row in TEXT), abs(middle - LAYER)],
            ),
        }
