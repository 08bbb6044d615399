"""`firstlight ntk`: does the tangent kernel fit the labels? `firstlight regime`: at which width would it suffice?"""

from typing import TYPE_CHECKING

from firstlight.cli.model_options import ModelOptions
from firstlight.cli.options import (
    AS_THEY_ARE,
    MODEL_FLAGS,
    TEXT,
    DataName,
    Device,
    FolderOptions,
    Numbers,
    OutputFormat,
    Seed,
)
from firstlight.cli.output import print_records, print_table

if TYPE_CHECKING:
    from torch import nn

FLAGS = {**MODEL_FLAGS, "n_fit": "--n"}


def ntk(
    checkpoint: str | None = None,
    *,
    model: ModelOptions,
    n: int = 100,
    form: OutputFormat = TEXT,
) -> None:
    """Print how well the tangent kernel fits the labels, beside shuffled labels; with initial weights also before.

    Parameters
    ----------
    checkpoint
        Weights, an ONNX file or networks:NAME, as for `firstlight inspect`.
    n
        Number of images; the cost grows with its square.
    """
    from firstlight.measures.linearized.tangent_kernel import ntk_gram
    from firstlight.measures.linearized.tangent_kernel_summary import effective_rank, label_alignment

    records = []
    with model.subject(checkpoint, at_most=n) as subject:
        for when, network in (("trained", subject.model), ("initial", subject.initial)):
            if network is None:
                continue
            gram = ntk_gram(network, subject.images, outputs="trace", output_part=model.output_part).cpu()
            fit = label_alignment(gram, subject.images.y, seed=model.seed)
            records.append({
                "network": when, "alignment": fit.value, "null_mean": fit.null_mean, "null_sd": fit.null_std,
                "effective_rank": effective_rank(gram), "images": len(gram),
            })  # fmt: skip
    if not form.is_text:
        print_records(records, form)
        return
    cells = [
        (
            f"{row['network']}", f"{row['alignment']:.3f}", f"{row['null_mean']:.3f} ± {row['null_sd']:.3f}",
            f"{row['effective_rank']:.1f} of {row['images']}",
        )
        for row in records
    ]  # fmt: skip
    columns = ("network", "alignment with the labels", "shuffled labels", "effective rank")
    print_table(f"Tangent kernel of {subject.name}", columns, cells)


def regime(
    arch: str,
    /,
    *,
    data: DataName,
    widths: Numbers = None,
    n: int = 300,
    device: Device = "auto",
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
    form: OutputFormat = TEXT,
) -> None:
    """Print at which width the linearisation of a network would catch up with the network itself.

    At every width the network is trained and its linearisation at the initial weights is solved exactly, both on the
    same images; both are then tested on up to 1,000 unseen ones.

    Parameters
    ----------
    arch
        Name of an architecture; or code of yours that builds the network, as module:function, which is given the width
        in multiples of the usual one.
    widths
        Widths to measure, in multiples of the usual one; by default 1 2 4. The time grows with their square.
    n
        Number of images to fit to; the solution takes the cube of images times classes.
    """
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight.data.catalogue import load_splits
    from firstlight.questions.regime.widths import WIDTHS, linear_catch_up

    place = choose_device(device)
    images, unseen = load_splits(data, n=n, seed=seed, **folder.options)

    def build_at(width: float, seed: int) -> "nn.Module":
        return _network(arch, width, classes=images.n_classes, shape=images.shape, seed=seed)

    with computing_on(place):
        scan = linear_catch_up(
            build_at, images, test=unseen, widths=widths or WIDTHS, n_fit=n, seed=seed, show=True
        )
    records = [
        {
            "width": row.width, "weights": row.n_weights, "accuracy": row.accuracy,
            "linear_accuracy": row.linear_accuracy, "gap": row.gap.value, "gap_low": row.gap.low,
            "gap_high": row.gap.high, "seconds": row.seconds,
        }
        for row in scan.rows
    ]  # fmt: skip
    if not form.is_text:
        print_records(records, form, document={"sentence": scan.sentence(), "widths": records})
        return
    cells = [
        (
            f"{row.width:g}", f"{row.n_weights:,}", f"{row.accuracy:.1%}", f"{row.linear_accuracy:.1%}",
            f"{100 * row.gap.value:.1f} ({100 * row.gap.low:.1f} to {100 * row.gap.high:.1f})", f"{row.seconds:.0f} s",
        )
        for row in scan.rows
    ]  # fmt: skip
    columns = ("width", "weights", "network", "linearisation", "gap in points (95% interval)", "time")
    print_table(f"{arch}, fitted to {scan.n_fit:,} images of {data}", columns, cells)
    print(scan.sentence())


def _network(arch: str, width: float, *, classes: int, shape: tuple[int, ...], seed: int) -> "nn.Module":
    from firstlight._internal.errors import InvalidInput
    from firstlight._internal.seeds import global_seed
    from firstlight.models.building import build, options
    from firstlight.models.kinds import model_from_code

    if ":" in arch:
        with global_seed("weights", seed):
            return model_from_code(arch, width)
    if "width" not in options(arch):
        raise InvalidInput(
            f"{arch} has no width to choose. Name code of yours that builds it at a width, as module:function."
        )
    return build(arch, classes=classes, shape=shape, width=width, seed=seed)
