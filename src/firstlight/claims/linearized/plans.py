"""The plans that several studies share, so that what they train is trained once."""

from dataclasses import replace

from firstlight.claims.linearized.tasks import Task
from firstlight.claims.linearized.twins import Plan

SHIFT = 7  # pixels, as published
CIFAR_STEPS = (0.3, 0.6, 0.9)  # every 30 of 100 epochs the rate is divided by ten
PUBLISHED_WIDTHS = (1.0, 2.0, 5.0, 10.0, 25.0, 60.0)

SMOKE = Plan(
    task=Task(data="photos", n=24, n_valid=16, n_test=24),
    epochs=1,
    search_epochs=1,
    rates=(0.03, 0.01),
    decays=(5e-5,),
    seeds=1,
)
"""Seconds, no download; shows only that a study runs."""

DESK = Plan()
"""2000 images and 8 epochs; the search gives every trial a quarter of that."""

DESK_HARD = replace(DESK, search_epochs=DESK.epochs)
"""Shifted digits and CIFAR-10: networks start on a plateau there, and a short search ranks nothing."""

DESK_EXACT = Plan(task=Task(n=300, n_valid=150, n_test=1000), epochs=24, search_epochs=6, seeds=1, solve=True)
"""Few enough images to solve all outputs exactly."""

DESK_BINARY = Plan(
    task=Task(n=1000, n_valid=200, n_test=2000, binary=True),
    epochs=40,
    rates=(0.01,),
    decays=(5e-5,),
    solve=True,
)
"""The published rate of the tables, without search."""

PAPER = Plan(
    task=Task(n=55_000, n_valid=5000, n_test=10_000),
    epochs=100,
    search_epochs=100,
    rates=(0.1, 0.01, 0.001, 1.0),
    decays=(5e-5, 5e-4, 5e-6, 5e-7, 5e-8),
    seeds=5,
)

PAPER_BINARY = Plan(
    task=Task(n=60_000 - 1000, n_valid=1000, n_test=10_000, binary=True),
    epochs=200,
    rates=(0.01,),
    decays=(5e-5,),
    seeds=1,
    solve=True,
)
