"""Filter covariance against gradient outer products, and kernels that use it."""
