"""Any images of the user's own."""

from firstlight.data.entries import DataSet, register_dataset


@register_dataset
def folder() -> DataSet:
    """Describe a user's folder; read anew at every call, never cached."""
    return DataSet(
        name="folder",
        summary="your own images: class folders or an npz file",
        shape=None,
        classes=(),
        counts={},
        licence="yours",
        where="your copy",
        formats=(
            "folders named by class with images of one size (below train/ and test/ if there are two "
            "splits), or an npz file with x and y"
        ),
    )
