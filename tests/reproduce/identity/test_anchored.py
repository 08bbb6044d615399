import torch

from reproduce.studies.identity.depth import anchored


def test_an_image_of_its_own_size_stays_as_it_is():
    image = torch.arange(25.0).reshape(1, 1, 5, 5)
    assert torch.equal(anchored(image, 5), image)


def test_corners_stay_in_their_corners():
    image = torch.rand(1, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    for side in (4, 5, 8, 11):
        other = anchored(image, side)
        assert other.shape == (1, 1, side, side)
        for rows in (slice(0, 2), slice(-2, None)):
            for columns in (slice(0, 2), slice(-2, None)):
                assert torch.equal(other[..., rows, columns], image[..., rows, columns]), side


def test_stretching_moves_what_anchoring_keeps():
    from firstlight.questions.copy_or_memorise.images import resized

    image = torch.zeros(1, 1, 6, 6)
    image[..., 0, :] = 1
    assert torch.equal(anchored(image, 8)[0, 0, 0], torch.ones(8))
    assert anchored(image, 8)[0, 0, 1:].sum() == 0
    assert resized(image, 8)[0, 0, 1:].sum() > 0
