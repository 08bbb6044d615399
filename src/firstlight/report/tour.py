"""The page of the tour: answers first, then the figures behind them."""

from firstlight.figures import Curve, Figure, curves, heatmap, picture_grid
from firstlight.insights import FirstLayerTour, Tour
from firstlight.report.ansatz import ansatz_sections
from firstlight.report.identity import identity_sections
from firstlight.report.order import order_sections
from firstlight.report.page import Page, Panel, Section


def tour_page(tour: Tour) -> Page:
    """Turn what a tour measured into a page."""
    layer = tour.first_layer
    return Page(
        title=f"What a small network learned from {tour.data_name}",
        lead=(_learned(layer), _explained(layer), _performed(tour)),
        sections=(
            _filters_section(layer),
            _profile_section(layer),
            _time_section(layer),
            *order_sections(tour.order),
            *ansatz_sections(tour.ansatz),
            *identity_sections(tour.identity),
            _training(tour),
        ),
        facts={
            "Data": f"{tour.data_name}, {tour.n_images} images",
            "Training": tour.recipe,
            "Time": f"{tour.seconds:.0f} s",
        },
    )


def _learned(layer: FirstLayerTour) -> str:
    low, middle, high = layer.bands.tolist()
    pairs = layer.consistency.pairs()
    agree = "agree" if pairs.min() > layer.consistency.band else "do not agree beyond chance"
    return (
        f"Training put {low:.0%} of what it changed in the first layer into coarse, {middle:.0%} into middle and "
        f"{high:.0%} into fine patterns. Networks from different seeds {agree}: their profiles correlate at "
        f"{pairs.min():.2f} or more, where unrelated profiles stay below {layer.consistency.band:.2f}."
    )


def _explained(layer: FirstLayerTour) -> str:
    found = layer.explanation
    return (
        f"Gradient descent's implicit bias alone, without any labels, explains {found.bias_share:.0%} of this "
        f"profile; the true labels add {max(found.label_share, 0):.0%}. The same fit explains "
        f"{max(found.null_share, 0):.0%} of random filters, which is what fitting alone achieves."
    )


def _performed(tour: Tour) -> str:
    return (
        f"The networks classify {tour.test_accuracy.mean():.0%} of unseen images correctly "
        f"(the largest class alone would give {tour.chance:.0%})."
    )


def _filters_section(layer: FirstLayerTour) -> Section:
    return Section(
        title="What does the first layer look at?",
        answer="Each square is one filter of the trained first layer, enlarged; middle grey is zero.",
        panels=(
            Panel(
                figure=picture_grid(
                    layer.filters,
                    title="Trained filters",
                    alt=f"{len(layer.filters)} small colour patterns, the filters of the first layer",
                    columns=16,
                ),
                shows="Every filter on its own symmetric scale.",
            ),
            Panel(
                figure=picture_grid(
                    layer.explanation.profile.pca.basis.mT.reshape(-1, *layer.filters.shape[1:]),
                    title="Principal components of the image patches",
                    alt="Patterns from coarse to fine: flat, then gradients, then finer waves",
                    columns=9,
                ),
                shows="From the largest variance (top left) to the smallest: the axes of the next figure.",
            ),
        ),
    )


def _profile_section(layer: FirstLayerTour) -> Section:
    found = layer.explanation
    return Section(
        title="Why these features?",
        answer=_explained(layer),
        panels=(
            Panel(
                figure=_profile_figure(layer),
                shows="Energy of the filters along each patch component; the band is the range over seeds.",
                published="Trained profiles of all networks coincide (correlation above 0.98 in many cases) "
                "and are unrelated to the initial ones.",
                measured=f"Pairs of seeds correlate at {layer.consistency.pairs().mean():.2f} on average, "
                f"{layer.consistency.pairs(without_first=True).mean():.2f} with the first component left out; "
                f"95 % of resampled filter banks of the first pair lie in "
                f"{layer.pair.interval.low:.2f} to {layer.pair.interval.high:.2f}. The first layer moved by "
                f"{layer.moved.mean():.1f} times its initial size.",
            ),
            Panel(
                figure=_consistency_figure(layer),
                shows="Correlation of every pair of profiles, with the two controls that prove nothing: random "
                "filters, and the square root of the patch variances, which a single step imprints.",
                measured=f"Trained against the root of the variances: "
                f"{found.profile.controls()['root of variances']:.2f}. Unrelated profiles of this length stay "
                f"within ±{layer.consistency.band:.2f}.",
            ),
        ),
    )


def _profile_figure(layer: FirstLayerTour) -> Figure:
    profile = layer.explanation.profile
    scale = layer.energies.max()
    root = profile.root_variance / profile.root_variance.max() * scale
    return curves(
        [
            Curve(name="trained", values=layer.energies),
            Curve(name="initial", values=layer.initial, role="initial"),
            Curve(name="theory without labels", values=layer.explanation.bias_curve[None], role="theory"),
            Curve(name="root of patch variances (scaled)", values=root[None], role="null"),
        ],
        title="Energy profile of the first layer",
        alt="Energy against component: trained networks above their start for coarse components, with the "
        "theory curve and the root of the variances for comparison",
        x="patch component, by decreasing variance",
        y="energy",
    )


def _consistency_figure(layer: FirstLayerTour) -> Figure:
    found = layer.consistency
    return heatmap(
        found.matrix,
        rows=found.names,
        columns=found.names,
        title="Do the networks agree?",
        alt="Matrix of correlations between the profiles of the networks and two controls",
    )


def _time_section(layer: FirstLayerTour) -> Section:
    steps = [s for s in layer.steps if s > 0]
    growth = layer.growth[-len(steps) :]
    shown = [0, 1, 2, 4, 8, 16]
    series = [
        Curve(name=f"component {i + 1}", values=growth[:, i][None], role=role)
        for i, role in zip(
            (i for i in shown if i < growth.shape[1]),
            ("trained", "random labels", "theory", "other", "null", "initial"),
            strict=False,
        )
    ]
    return Section(
        title="Which components grow first?",
        answer="The energy of the update, component by component, while the first network trained.",
        panels=(
            Panel(
                figure=curves(
                    series,
                    title="Growth during training",
                    alt="Energy of the accumulated update against training step, for six components",
                    x="training step",
                    y="energy of the update",
                    at=steps,
                    log_x=True,
                    log_y=True,
                ),
                shows="Components of large variance come first; both axes are logarithmic.",
                published="Gradient descent moves first along large components.",
            ),
        ),
    )


def _training(tour: Tour) -> Section:
    epochs = tour.loss.shape[1]
    return Section(
        title="How well did it train?",
        answer=f"Training accuracy {tour.train_accuracy.mean():.0%}, test accuracy "
        f"{tour.test_accuracy.mean():.0%} (from {tour.test_accuracy.min():.0%} to {tour.test_accuracy.max():.0%}).",
        panels=(
            Panel(
                figure=curves(
                    [Curve(name="training loss", values=tour.loss)],
                    title="Loss",
                    alt="Training loss falls over the epochs",
                    x="epoch",
                    y="cross-entropy (nats)",
                    at=range(1, epochs + 1),
                    height=260,
                ),
                shows="Mean over seeds; the band is the range.",
            ),
        )
        if epochs > 1
        else (),
    )
