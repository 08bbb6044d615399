"""
A kernel that learns features, in a pipeline
============================================

``ConvRFMClassifier`` follows scikit-learn's contract: rows in, predictions out. So it takes part in pipelines,
grids and cross-validation like any other classifier.
"""

# %%
# Digits as rows
# --------------

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from firstlight import ConvRFMClassifier
from firstlight.pages.figures import picture_grid

x, y = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(x, y, train_size=300, test_size=300, random_state=0, stratify=y)

# %%
# A grid over the number of rounds
# --------------------------------
# With ``rounds=0`` the kernel is fixed: it is the null of a kernel that learns.

pipeline = make_pipeline(
    MinMaxScaler(), ConvRFMClassifier(image_shape=(1, 8, 8), family="laplace", depth=1, random_state=0)
)
search = GridSearchCV(pipeline, {"convrfmclassifier__rounds": [0, 2]}, cv=2)
search.fit(x, y)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['convrfmclassifier__rounds']} rounds: {score:.1%} in cross-validation")
print(f"unseen digits: {search.score(x_test, y_test):.1%}")

# %%
# Which patches matter
# --------------------
# The leading eigenvectors of the learned metric, as filters.

learned = pipeline.set_params(convrfmclassifier__rounds=2).fit(x, y)[-1]
_, vectors = torch.linalg.eigh(torch.as_tensor(learned.metric_).double())  # by increasing eigenvalue
picture_grid(
    vectors.T.flip(0).reshape(9, 1, 3, 3),
    title="Directions of the metric, the most important first",
    alt="Nine filters of 3 x 3 pixels",
    zoom=14,
)
