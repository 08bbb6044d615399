"""`firstlight ansatz`: do filters follow gradients, layer by layer, beyond chance?"""

from typing import Any

from firstlight.cli.model_options import ModelOptions
from firstlight.cli.options import (
    MODEL_FLAGS,
    TEXT,
    OutputFormat,
)
from firstlight.cli.output import print_records, print_table

FLAGS = MODEL_FLAGS


def ansatz(
    checkpoint: str | None = None,
    *,
    model: ModelOptions,
    n: int = 64,
    form: OutputFormat = TEXT,
) -> None:
    """Print how far the filters of each layer follow its gradients, beside rotated gradients.

    Parameters
    ----------
    checkpoint
        Weights, an ONNX file or networks:NAME, as for `firstlight inspect`.
    n
        Number of images for gradients.
    """
    from firstlight.measures.feature_ansatz.ansatz import TRAINED
    from firstlight.measures.feature_ansatz.ansatz import ansatz as measured

    with model.subject(checkpoint, at_most=n) as subject:
        result = measured(subject.model, subject.images, output_part=model.output_part, seed=model.seed)
    rows = result.pair(TRAINED, hidden=True)
    records: list[dict[str, Any]] = [
        {
            "layer": row.layer, "pearson": row.pearson, "error": row.pearson_error,
            "null_low": float(row.null_pearson.min()), "null_high": float(row.null_pearson.max()),
            "above_null": row.is_above_null,
        }
        for row in rows
    ]  # fmt: skip
    if not form.is_text:
        print_records(records, form, document={"model": subject.name, "layers": records})
        return
    cells = [
        (
            record["layer"], f"{record['pearson']:.2f} ± {record['error']:.2f}",
            f"{record['null_low']:.2f} .. {record['null_high']:.2f}", "yes" if record["above_null"] else "no",
        )
        for record in records
    ]  # fmt: skip
    columns = ("layer", "correlation", "rotated gradients", "beats all of them")
    print_table(f"{subject.name}, {result.n_images} images", columns, cells)
    # the largest of draws + 1 exchangeable numbers is each of them equally often
    by_chance = sum(1 / (len(row.null_pearson) + 1) for row in rows)
    above = sum(row.is_above_null for row in rows)
    print(f"{above} of {len(rows)} layers beat every rotated control; {by_chance:.1f} expected by chance.")
