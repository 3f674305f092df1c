"""The errors that Dimly raises on purpose.

Text: *name must be X, got Y. What to do.* Never a user id, a private value or a private count.
"""


class DimlyError(Exception):
    """Base of every error that Dimly raises on purpose."""


class ParameterError(DimlyError, ValueError):
    """A call that cannot work: a parameter is out of range, missing or contradicts another."""


class DataError(DimlyError):
    """The data do not fit the plan. The text says how, without quoting any of them."""


class BudgetError(DimlyError):
    """The privacy budget does not allow what was asked."""


class ReleaseError(DimlyError):
    """A release is incomplete, damaged or of a format that this version does not know."""


class MissingExtraError(DimlyError, ImportError):
    """An optional package is needed; the text names the extra to install."""


class PrivacyWarning(UserWarning):
    """What was asked is done, and promises less than it could: the text says what is missing."""
