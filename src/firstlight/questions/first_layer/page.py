"""The first layer on a page: its filters, its profile and why, its course through training."""

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.measures.first_layer.consistency import Consistency
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure, Sprite
from firstlight.pages.figures.heatmap import heatmap
from firstlight.pages.figures.pictures import picture_grid, sprite
from firstlight.pages.figures.slider import film
from firstlight.pages.page import Answer, Panel, Section
from firstlight.questions.first_layer.tour_part import FirstLayerTour

WHY, GROWTH = "Why these features?", "Which components grow first?"


def first_layer_answers(layer: FirstLayerTour) -> tuple[Answer, ...]:
    """What the first layer learned, and what explains it."""
    return (
        Answer(question="What did the first layer learn?", answer=_learned(layer), section=WHY),
        Answer(question="What explains it?", answer=_explained(layer), section=WHY),
    )


def first_layer_sections(layer: FirstLayerTour) -> tuple[Section, ...]:
    """Profile and growth."""
    return (_profile(layer), _growth(layer))


def _learned(layer: FirstLayerTour) -> str:
    low, middle, high = layer.bands.tolist()
    words = (
        f"Training put {low:.0%} of what it changed in the first layer into coarse, {middle:.0%} into middle and "
        f"{high:.0%} into fine patterns."
    )
    if layer.consistency is None:
        return words
    pairs = layer.consistency.pairs()
    span = " to ".join(dict.fromkeys(f"{value:.2f}" for value in (pairs.min(), pairs.max())))
    agree = "agree" if pairs.min() > layer.consistency.band else "do not all agree beyond chance"
    return (
        f"{words} {layer.consistency.n_profiles} networks trained on the same images {agree}: their profiles correlate "
        f"at {span}, where unrelated profiles stay below {layer.consistency.band:.2f}."
    )


def _explained(layer: FirstLayerTour) -> str:
    explanation = layer.explanation
    bias, labels, null = (
        max(share, 0.0) for share in (explanation.bias_share, explanation.label_share, explanation.null_share)
    )
    if bias <= null:
        return (
            f"The closed form of linear CNNs does not explain this profile: it fits {bias:.0%} of it, and {null:.0%} "
            "of random filters."
        )
    return (
        f"Gradient descent's implicit bias alone, without any labels, explains {bias:.0%} of this profile; the true "
        f"labels add {labels:.0%}. The same fit explains {null:.0%} of random filters, which is what fitting alone "
        "achieves."
    )


def _moments(layer: FirstLayerTour) -> list[str]:
    return ["initial" if step == 0 else f"step {step:,}" for step in layer.steps]


def filters_over_time(shots: Float[Tensor, "t k c h w"], moments: list[str]) -> Figure:
    """Filters at several moments, on one scale for all filters and moments: weak ones look weak."""
    top = shots.abs().max()
    scaled = 0.5 + 0.5 * shots / torch.where(top > 0, top, torch.ones_like(top))
    title, alt = "Filters during training", f"{shots.shape[1]} small patterns, the filters of the first layer"
    grids = [
        picture_grid(one, title=title, alt=alt, signed=False, columns=min(16, max(8, shots.shape[1] // 4)))
        for one in scaled
    ]
    whole = film(grids, moments, time="moment", title=title, alt=alt, tables=False)
    return dataclasses.replace(whole, table=picture_grid(shots[-1], title=title, alt=alt).table)


def _patches(layer: FirstLayerTour) -> Sprite:
    basis = layer.explanation.profile.pca.basis
    return sprite(basis.mT.reshape(-1, *layer.filters.shape[1:]), name="component")


def _profile(layer: FirstLayerTour) -> Section:
    explanation = layer.explanation
    measured = f"The first layer moved by {float(layer.moved[0]):.1f} times its initial size."
    if layer.consistency is not None and layer.pair is not None:
        measured += (
            f" Pairs of networks correlate at {layer.consistency.pairs().mean():.2f} on average, "
            f"{layer.consistency.pairs(without_first=True).mean():.2f} with the first component left out; 95% of "
            f"resampled filter banks of the first pair lie in {layer.pair.low:.2f} to "
            f"{layer.pair.high:.2f}."
        )
    panels = [
        Panel(
            figure=_profile_figure(layer),
            shows="How strongly the filters respond along each patch component, every network scaled to the same "
            "total; the band is the range over networks. Touch a point to see its component.",
            published="Trained profiles of all networks coincide (correlation above 0.98 in many cases) "
            "and are unrelated to the initial ones.",
            measured=measured,
            formulas=("energy", "components", "implicit bias"),
        )
    ]
    if layer.consistency is not None:
        panels.append(
            Panel(
                figure=_consistency_figure(layer.consistency),
                shows="Correlation of every pair of profiles, with the two controls that prove nothing: random "
                "filters, and the square root of the patch variances, which a single step imprints.",
                published="Nearly the same across seeds, widths and architectures; these controls were not shown.",
                measured=f"Trained against the root of the variances: "
                f"{explanation.profile.controls()['root of variances']:.2f}. Unrelated profiles of this length stay "
                f"within ±{layer.consistency.band:.2f}.",
                formulas=("consistency",),
            )
        )
    return Section(title=WHY, answer=f"{_learned(layer)} {_explained(layer)}", panels=tuple(panels))


def _profile_figure(layer: FirstLayerTour) -> Figure:
    profile = layer.explanation.profile
    theory = layer.explanation.bias_curve / profile.amplitude.norm()
    controls = {"random labels": "random labels"}
    figure = curves(
        [
            Curve(name="trained", values=_scaled(layer.amplitudes)),
            Curve(name="initial", values=_scaled(layer.initial), role="initial"),
            Curve(name="theory without labels", values=theory[None], role="theory"),
            *(
                Curve(name=name, values=_scaled(one[None]), role=controls.get(name, "other"))
                for name, one in layer.controls.items()
            ),
            Curve(name="root of patch variances", values=_scaled(profile.root_variance[None]), role="null"),
        ],
        title="Profile of the first layer",
        alt="Response against component: trained networks above the initial ones for coarse components, with the "
        "theory curve, the controls and the root of the variances for comparison",
        x="patch component, by decreasing variance",
        y="response, scaled to a sum of squares of 1",
    )
    return dataclasses.replace(figure, sprite=_patches(layer))


def _scaled(rows: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    """Every profile scaled to norm 1: networks have different numbers of filters."""
    norms: Tensor = rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return rows / norms


def _consistency_figure(agreement: Consistency) -> Figure:
    return heatmap(
        agreement.matrix,
        rows=agreement.names,
        columns=agreement.names,
        title="Do the networks agree?",
        alt="Matrix of correlations between the profiles of the networks and two controls",
    )


def _growth(layer: FirstLayerTour) -> Section:
    late = layer.growth[-1]
    first, last = float(late[: len(late) // 3].norm() / late.norm()), len(late) // 3
    return Section(
        title=GROWTH,
        answer=f"At the end the first {last} of {len(late)} components hold {first**2:.0%} of the energy of what "
        "training changed in the first network.",
        panels=(
            Panel(
                figure=_course_figure(layer),
                shows="The energy profile of the first network from the initial weights to the end of training.",
                published="The trained profile is reached from any initial weights and does not depend on them.",
                measured=f"{len(layer.steps)} moments in {layer.steps[-1]:,} steps, dense in the beginning.",
                formulas=("energy",),
            ),
            Panel(
                figure=_growth_figure(layer),
                shows="Amplitude of what training changed, component by component; both axes are logarithmic.",
                published="Gradient descent moves first along components of large variance.",
                measured=_ratio(layer),
                formulas=("update energy",),
            ),
        ),
    )


def _course_figure(layer: FirstLayerTour) -> Figure:
    title = "Energy profile through training"
    alt = "Amplitude against component while the first network trains, beside the initial one"
    start = Curve(name="initial", values=layer.course[:1], role="initial")
    moments = [
        curves(
            [Curve(name="this moment", values=now[None]), start],
            title=title,
            alt=alt,
            x="patch component, by decreasing variance",
            y="amplitude",
        )
        for now in layer.course
    ]
    whole = film(moments, _moments(layer), time="moment", title=title, alt=alt)
    return dataclasses.replace(whole, sprite=_patches(layer))


def _growth_figure(layer: FirstLayerTour) -> Figure:
    steps = [s for s in layer.steps if s > 0]
    growth = layer.growth[-len(steps) :]
    shown = [i for i in (0, 1, 2, 4, 8, 16) if i < growth.shape[1]]
    return curves(
        [
            Curve(name=f"component {i + 1}", values=growth[:, i][None], shade=k / max(len(shown) - 1, 1))
            for k, i in enumerate(shown)
        ],
        title="Growth during training",
        alt=f"Amplitude of the accumulated update against training step, for {len(shown)} components",
        x="training step",
        y="amplitude of the update",
        at=steps,
        log_x=True,
        log_y=True,
    )


def _ratio(layer: FirstLayerTour) -> str:
    moved = layer.growth[layer.growth.sum(1) > 0]
    if not len(moved):
        return "Nothing moved."
    share = moved[:, 0] / moved.sum(1)
    return (
        f"The first component holds {float(share[0]):.0%} of the summed amplitude of the update after the first step "
        f"and {float(share[-1]):.0%} at the end."
    )
