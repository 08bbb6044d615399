"""Models and inputs of many kinds, and what becomes of each: the table in docs/models-and-inputs.md.

``python tests/models_and_inputs.py`` writes the page again. A test runs every case and compares.
"""

import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, Dataset, TensorDataset

import firstlight
from firstlight._internal.errors import FirstlightError
from firstlight.models.kinds import demand_network

PAGE = Path(__file__).parents[1] / "docs" / "models-and-inputs.md"
IMAGES = torch.rand(6, 3, 12, 12, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(6) % 3

# ---------------------------------------------------------------- models


def head(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 3))


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), *head(5))


class PadsItself(nn.Conv2d):
    """Pads before it convolves, as EfficientNet's layers do."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.weight, self.bias, self.stride)


class Standardises(nn.Conv2d):
    """Standardises its weight in every pass, as the layers of big transfer models do."""

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.weight - self.weight.mean((1, 2, 3), True)) / self.weight.std((1, 2, 3), keepdim=True)
        return functional.conv2d(x, weight, self.bias)


class Functional(nn.Module):
    """Holds a bare parameter and calls the function."""

    def __init__(self) -> None:
        super().__init__()
        self.bank = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.rest = head(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(functional.conv2d(x, self.bank).relu())


class LoopsOverImages(nn.Module):
    """Computes one image after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.inner(one[None]) for one in x])


class Autocasts(nn.Module):
    """Switches to half precision by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, dtype=torch.float16):
            return self.inner(x)


class Repeats(nn.Module):
    """Applies one layer three times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3, padding=1)
        self.last, self.rest = nn.Conv2d(4, 5, 3), head(5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            x = self.again(x.relu())
        return self.rest(self.last(x).relu())


class ReturnsDictionary(nn.Module):
    """Answers with a dictionary, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": self.inner(x)}


class TakesDictionary(nn.Module):
    """Wants its images by name."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.inner(batch["pixel_values"])


class PatchTransformer(nn.Module):
    """A vision transformer; its patches are embedded by a convolution or by a linear layer."""

    def __init__(self, *, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.embed = nn.Linear(3 * 16, 8) if linear else nn.Conv2d(3, 8, 4, stride=4)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.answer = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.linear:
            tokens = self.embed(functional.unfold(x, 4, stride=4).transpose(1, 2))
        else:
            tokens = self.embed(x).flatten(2).transpose(1, 2)
        return self.answer(self.encoder(tokens).mean(1))


class Shifted(nn.Module):
    """Attention within windows that are shifted by rolling, as in a Swin transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 2, stride=2)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.answer = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        grid = self.embed(x).roll((1, 1), (2, 3)).permute(0, 2, 3, 1)
        b, h, w, c = grid.shape
        windows = grid.reshape(b, h // 2, 2, w // 2, 2, c).transpose(2, 3).reshape(-1, 4, c)
        return self.answer(self.attend(windows, windows, windows)[0].reshape(b, -1, c).mean(1))


class InvertedBlock(nn.Module):
    """A block of ConvNeXt: depthwise convolution, layer norm, two pointwise linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 2, stride=2)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.norm = nn.LayerNorm(6)
        self.wide, self.narrow = nn.Linear(6, 12), nn.Linear(12, 6)
        self.rest = head(6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return self.rest(x + self.narrow(functional.gelu(self.wide(y))).permute(0, 3, 1, 2))


class Mixed(nn.Module):
    """Many kinds of layers and operations, for files of other formats."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.up, self.slope = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1), nn.PReLU(4)
        self.answer, self.scale = nn.Linear(36, 5), nn.LayerNorm(5)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.hardswish(self.norm(self.first(x)))
        x = self.grouped(functional.max_pool2d(x, 3, 2, 1, ceil_mode=True))
        left, right = (x * x.mean((2, 3), keepdim=True).sigmoid()).chunk(2, 1)
        x = self.slope(self.up(torch.cat([right, functional.gelu(left)], 1)))
        x = functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        x = functional.interpolate(x, scale_factor=2)
        x = functional.interpolate(x, size=(5, 5), mode="bilinear")
        x = functional.pad(x, (1, 0, 2, 1), mode="reflect")[:, :, ::2, 1:4][:, :, :3, :3]
        x = self.scale(self.answer(x.flatten(1)))
        return x.clamp(-1, 1).softmax(1) + x.norm(dim=1, keepdim=True)


class Segments(nn.Module):
    """A small U-Net: one answer for each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, padding=1)
        self.middle = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down(x).relu()
        middle = self.middle(functional.max_pool2d(first, 2)).relu()
        return self.out(torch.cat([first, self.up(middle)], 1))


def in_one_dimension() -> nn.Module:
    layers = (nn.Conv1d(2, 4, 5), nn.ReLU(), nn.Conv1d(4, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(5, 3))


def in_three_dimensions() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(3, 3)
    )


def quantised() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Flatten(), nn.Linear(432, 3)), {nn.Linear}
        )


def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(plain())


def poisoned() -> nn.Module:
    model = plain()
    with torch.no_grad():
        model[0].weight[0, 0, 0, 0] = torch.nan
    return model


def with_first(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.ReLU(), *head(4))


SIGNALS = torch.randn(6, 2, 40, generator=torch.Generator().manual_seed(1))
VOLUMES = torch.randn(6, 1, 6, 6, 6, generator=torch.Generator().manual_seed(2))
TWO_CHANNELS = torch.rand(6, 2, 12, 12, generator=torch.Generator().manual_seed(3))

MODELS: dict[str, tuple[Callable[[], Any], Tensor]] = {
    "plain convolutions": (plain, IMAGES),
    "two input channels": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), *head(4)), TWO_CHANNELS),
    "groups and depthwise layers (ConvNeXt block)": (InvertedBlock, IMAGES),
    "a subclass that pads by itself (EfficientNet)": (lambda: with_first(PadsItself(3, 4, 3)), IMAGES),
    "a subclass that standardises its weight": (lambda: with_first(Standardises(3, 4, 3)), IMAGES),
    "`functional.conv2d` of a bare parameter": (Functional, IMAGES),
    "weight norm": (lambda: with_first(parametrizations.weight_norm(nn.Conv2d(3, 4, 3))), IMAGES),
    "spectral norm": (lambda: with_first(parametrizations.spectral_norm(nn.Conv2d(3, 4, 3))), IMAGES),
    "transposed convolutions, one answer per pixel (U-Net)": (Segments, IMAGES),
    "vision transformer, convolution over patches": (lambda: PatchTransformer(linear=False), IMAGES),
    "vision transformer, linear layer over patches": (lambda: PatchTransformer(linear=True), IMAGES),
    "shifted windows (Swin)": (Shifted, IMAGES),
    "one dimension (audio)": (in_one_dimension, SIGNALS),
    "three dimensions (volumes)": (in_three_dimensions, VOLUMES),
    "`torch.compile`": (lambda: torch.compile(plain()), IMAGES),
    "`DataParallel`": (lambda: nn.DataParallel(plain()), IMAGES),
    "half precision": (lambda: plain().half(), IMAGES),
    "autocast inside `forward`": (Autocasts, IMAGES),
    "one layer applied three times": (Repeats, IMAGES),
    "a `forward` that loops over images": (LoopsOverImages, IMAGES),
    "a dictionary as output": (ReturnsDictionary, IMAGES),
    "a dictionary as input": (TakesDictionary, IMAGES),
    "a dictionary as input, with `call`": (
        lambda: firstlight.load_model(
            factory=TakesDictionary, call=lambda model, x: model({"pixel_values": x})
        ),
        IMAGES,
    ),
    "lazy layers": (lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), *head(4)), IMAGES),
    "weights on the `meta` device": (lambda: plain().to("meta"), IMAGES),
    "NaN among the weights": (poisoned, IMAGES),
    "dynamic quantisation": (quantised, IMAGES),
    "an ONNX file": (
        lambda: firstlight.load_model(Path(__file__).parent / "models" / "onnx" / "mixed_legacy.onnx"),
        IMAGES,
    ),
    "TorchScript": (scripted, IMAGES),
    "an exported program": (lambda: torch.export.export(plain(), (IMAGES,)), IMAGES),
}

# ---------------------------------------------------------------- inputs


class Rows(Dataset[Any]):
    """A data set whose items are dictionaries."""

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": IMAGES[index], "label": int(LABELS[index])}


def pictures() -> list[Image.Image]:
    return [Image.fromarray((one.permute(1, 2, 0).numpy() * 255).astype(np.uint8)) for one in IMAGES]


def in_folder(folder: Path) -> Path:
    for index, picture in enumerate(pictures()):
        path = folder / "images" / str(int(LABELS[index])) / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    return folder / "images"


def in_npz(folder: Path) -> Path:
    np.savez(folder / "images.npz", x=IMAGES.numpy(), y=LABELS.numpy())
    return folder / "images.npz"


def as_bytes() -> bytes:
    buffer = io.BytesIO()
    pictures()[0].save(buffer, "PNG")
    return buffer.getvalue()


INPUTS: dict[str, Callable[[Path], Any]] = {
    "a tensor": lambda folder: IMAGES,
    "a NumPy array": lambda folder: IMAGES.numpy(),
    "a list of PIL images": lambda folder: pictures(),
    "`ImageData`": lambda folder: firstlight.ImageData(x=IMAGES, y=LABELS, classes=("a", "b", "c")),
    "a `Dataset` of tuples": lambda folder: TensorDataset(IMAGES, LABELS),
    "a `Dataset` of dictionaries": lambda folder: Rows(),
    "a `DataLoader` of tuples": lambda folder: DataLoader(TensorDataset(IMAGES, LABELS), batch_size=4),
    "a `DataLoader` of dictionaries": lambda folder: DataLoader(Rows(), batch_size=4),
    "rows in the style of Hugging Face": lambda folder: [
        {"image": picture, "label": int(y)} for picture, y in zip(pictures(), LABELS, strict=True)
    ],
    "a folder of class folders": in_folder,
    "the path of a folder as text": lambda folder: str(in_folder(folder)),
    "an npz file": in_npz,
    "the name of a data set": lambda folder: "photos",
    "bfloat16": lambda folder: IMAGES.bfloat16(),
    "complex numbers": lambda folder: IMAGES.to(torch.complex64),
    "NaN among the pixels": lambda folder: IMAGES.masked_fill(IMAGES > 0.99, torch.nan),
    "no image": lambda folder: IMAGES[:0],
    "bytes of a file": lambda folder: as_bytes(),
    "a path that does not exist": lambda folder: "no/such/folder",
}

# ---------------------------------------------------------------- what becomes of them


@dataclass(frozen=True)
class Outcome:
    """Whether something works, and in which words it does not."""

    works: bool
    words: str


def outcome(act: Callable[[], str]) -> Outcome:
    """Run a case. Anything but our own errors is a mistake of ours and is not caught."""
    try:
        return Outcome(works=True, words=act())
    except FirstlightError as error:
        return Outcome(works=False, words=" ".join(str(error).split()))


def inspected(make: Callable[[], Any], images: Tensor) -> str:
    torch.manual_seed(0)
    model = make()
    demand_network(model)  # first thing in `inspect`, whose types the test suite checks before
    seen = firstlight.inspect(model, images, show=False)
    missing = len(seen.ansatz.skipped)
    first = f", first layer `{seen.profile.layer.name}`" if seen.profile is not None else ", no profile"
    again = "".join(f", `{one.name}` applied {one.n_calls} times" for one in seen.layers if one.n_calls > 1)
    precision = f"; {seen.precision}" if seen.precision else ""
    return (
        f"{len(seen.layers)} layers{again}{f', {missing} not measured' if missing else ''}{first}{precision}"
    )


def converted(make: Callable[[Path], Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        data = firstlight.data.as_images(make(Path(folder)))
    return f"{len(data.x)} images of {' x '.join(map(str, data.x.shape[1:]))}"


def cases() -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Kind, name and action of every row."""
    for name, (make, images) in MODELS.items():
        yield "models", name, lambda make=make, images=images: inspected(make, images)
    for name, given in INPUTS.items():
        yield "inputs", name, lambda given=given: converted(given)


def page() -> str:
    tables = {"models": [], "refused_models": [], "inputs": []}
    for kind, name, act in cases():
        print(name, file=sys.stderr)
        result = outcome(act)
        table = tables["refused_models" if kind == "models" and not result.works else kind]
        table.append(f"| {name} | {'works' if result.works else 'refused'} | {result.words} |")
    return TEXT.format(**{kind: "\n".join(rows) for kind, rows in tables.items()})


TEXT = """# Models and inputs

What `firstlight.inspect` makes of models of many kinds, and `firstlight.data.as_images` of inputs. The tables are
written by `python tests/models_and_inputs.py`, and a test runs every row again. Models are small and made
for the test, with the layers and habits of the architectures that they stand for.

## What a model must satisfy

It must be an ordinary `torch.nn.Module` with finite weights in floating point, take a batch of images and return one
tensor. Each violation has its message:

| violation | | message |
|---|---|---|
{refused_models}

## Models that work

| model | | what is measured |
|---|---|---|
{models}

## Inputs

Every function and command that takes images takes all of these.

| input | | what it becomes, or the message |
|---|---|---|
{inputs}
"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
