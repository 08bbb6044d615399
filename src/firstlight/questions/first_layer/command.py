"""`firstlight profile`: how much of a first layer needs no labels."""

from firstlight.cli.model_options import ModelOptions
from firstlight.cli.options import (
    MODEL_FLAGS,
    TEXT,
    OutputFormat,
)
from firstlight.cli.output import print_records

FLAGS = MODEL_FLAGS


def profile(
    checkpoint: str | None = None,
    *,
    model: ModelOptions,
    n: int = 2000,
    form: OutputFormat = TEXT,
) -> None:
    """Print how much of the first layer's energy profile needs no labels, beside random filters.

    With --csv one row per component of the patches: amplitude, its mean and spread for random filters, and the root of
    the variance.

    Parameters
    ----------
    checkpoint
        Weights, an ONNX file or networks:NAME, as for `firstlight inspect`.
    n
        Maximum number of images.
    """
    from firstlight.questions.first_layer.measure import explain_profile

    with model.subject(checkpoint, at_most=n) as subject:
        explained = explain_profile(subject.model, subject.images, seed=model.seed)
    if form.is_text:
        worse = " (below 0: worse than a constant)" if explained.bias_share < 0 else ""
        print(
            f"Explained without labels: {explained.bias_share:.0%} of the variance of the profile{worse}. "
            f"The same fit on random filters: {explained.null_share:.0%}. True labels add {explained.label_share:.0%}."
        )
        return
    measured = explained.profile
    columns = {
        "amplitude": measured.amplitude,
        "null_mean": measured.nulls.mean(0),
        "null_sd": measured.nulls.std(0),
        "root_variance": measured.root_variance,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    components = [{"component": i, **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows, 1)]
    shares = {name: getattr(explained, name) for name in ("bias_share", "null_share", "label_share")}
    print_records(components, form, document={"model": subject.name, **shares, "components": components})
