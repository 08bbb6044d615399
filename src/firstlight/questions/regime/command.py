"""`firstlight ntk`: does the tangent kernel of a network fit its labels?"""

from firstlight.cli.model_options import NO_OPTIONS, ModelOptions, subject_of
from firstlight.cli.options import (
    AS_THEY_ARE,
    MODEL_FLAGS,
    TEXT,
    DataName,
    Device,
    FolderOptions,
    OutputFormat,
    Seed,
)
from firstlight.cli.output import print_records, print_table

FLAGS = MODEL_FLAGS


def ntk(
    checkpoint: str | None = None,
    *,
    data: DataName,
    model: ModelOptions = NO_OPTIONS,
    n: int = 100,
    device: Device = "auto",
    seed: Seed = 0,
    folder: FolderOptions = AS_THEY_ARE,
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
    from firstlight._internal.devices import choose_device, computing_on
    from firstlight.measures.linearized import effective_rank, label_alignment, ntk_gram

    place = choose_device(device)
    subject = subject_of(checkpoint, data, model, at_most=n, seed=seed, folder=folder, device=place)
    networks = {"trained": subject.model, "initial": subject.initial}
    records = []
    for when, network in networks.items():
        if network is None:
            continue
        with computing_on(place):
            gram = ntk_gram(network, subject.images, outputs="trace", output_part=model.output_part).cpu()
        fit = label_alignment(gram, subject.images.y, seed=seed)
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
