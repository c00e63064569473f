"""What all members share: features encoded, labels checked, probabilities of every label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hierlpr.exceptions import DataError
from hierlpr.first_stage.encoding import FeatureEncoder, columns_of
from hierlpr.first_stage.label_columns import LabelColumns, check_labels

Progress = Callable[[int, int], None]
Encoded = NDArray[np.float32]


class MultiLabelEstimator(BaseEstimator):  # type: ignore[misc]
    """Features to a matrix of probabilities, one column a label.

    A member has two methods of its own: `learn`, from encoded features and the different label
    columns, and `proba`, the probabilities of those columns for encoded features. `learn` sets
    `outside_`: the probabilities of the training samples from parts that have not seen them, None
    where nobody asked for them. `is_calibrated` says that a map learned out of fold has made them
    the probabilities they claim to be.
    """

    is_calibrated: ClassVar[bool] = False
    outside_: NDArray[np.float32] | None

    def fit(self, X: Any, y: Any, *, on_progress: Progress | None = None) -> Self:  # noqa: N803
        """Learn the probabilities of all labels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            NaN is a missing value. Text and categorical columns are categories.
        y : matrix of shape (n_samples, n_labels)
            0 or 1.
        on_progress : callable, optional
            Called as ``on_progress(done, total)``.
        """
        encoder = FeatureEncoder(rng=0).fit(X)
        x = encoder.transform(X)
        held = check_labels(y, x.shape[0])
        if x.shape[0] < 2:
            raise DataError(f"{x.shape[0]} sample: there is nothing to learn from fewer than 2.")
        self.encoder_ = encoder
        self.n_features_in_ = encoder.n_features
        if (names := columns_of(encoder.names)) is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.labels_ = LabelColumns.of(held)
        self.learn(x, self.labels_, on_progress=on_progress)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probability of every label, of shape (n_samples, n_labels)."""
        check_is_fitted(self, "encoder_")
        x = self._encode(X)
        return self.labels_.spread(self.proba(x))

    def predict(self, X: Any) -> NDArray[np.bool_]:  # noqa: N803
        """Labels with a probability of one half or more."""
        return self.predict_proba(X) >= 0.5

    @property
    def oof_proba_(self) -> NDArray[np.float64]:
        """Probabilities of the training samples, by parts that were not trained on them."""
        check_is_fitted(self, "encoder_")
        if self.outside_ is None:
            raise DataError(
                f"{type(self).__name__} was fitted without out-of-fold probabilities: ask for "
                "them by its parameters."
            )
        return self.labels_.spread(self.outside_)

    def learn(
        self, x: Encoded, labels: LabelColumns, *, on_progress: Progress | None = None
    ) -> None:
        """Fit to encoded features."""
        raise NotImplementedError

    def proba(self, x: Encoded) -> NDArray[Any]:
        """Probabilities of the different label columns."""
        raise NotImplementedError

    def _encode(self, X: Any) -> Encoded:  # noqa: N803
        try:
            return self.encoder_.transform(X)
        except DataError as error:
            text = str(error).replace("FeatureEncoder", type(self).__name__)
            raise DataError(text) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
