"""The exceptions of dptopk. None of them carries data that was not released."""


class DptopkError(Exception):
    """Base class of the library's own exceptions."""


class UnknownDomainError(DptopkError, ValueError):
    """A mechanism over the full domain was given items read off the data.

    Such a mechanism is private only over a domain fixed before the data is
    seen: with items read off the data, an item that only one user has appears
    or vanishes with that user.
    """


class RandomnessError(DptopkError, RuntimeError):
    """No secure source of random bits: nothing was drawn and nothing released."""


class ExhaustedError(DptopkError, RuntimeError):
    """All the hits or answers that a budget pays for have been given: nothing was drawn."""


class TapeEndError(DptopkError, RuntimeError):
    """A fixed tape of random words (tests only) was read to its end."""


class SourceError(DptopkError, ValueError):
    """A file, table or column that cannot be read as user-item events."""


class MechanismError(DptopkError, RuntimeError):
    """A mechanism handed in by the caller failed, or returned what it must not.

    Whether that happens may depend on the data, so the budget of the call is
    spent. The message says which rule was broken and no more: call the
    mechanism on counts that are made up to see why.
    """


class StatementError(DptopkError, ValueError):
    """What the caller stated about the data beforehand does not hold of it.

    That it was raised is not covered by any privacy guarantee: it tells that
    much about the data. No message says more than that.
    """


class BudgetError(DptopkError):
    """A call that might cost more than is left: nothing was drawn and nothing charged."""


class LedgerError(DptopkError):
    """A ledger can't do what was asked of it.

    The subclasses say what to do about it. An error that is none of them means
    that the file is not a sound ledger: somebody has to look at it.
    """


class LedgerConflictError(LedgerError):
    """The ledger holds something else under this name or request_id, and keeps it.

    A budget that exists already, a request that was made before with other
    parameters, or one that was charged and has no release. The same call again
    meets the same error, unless another caller is still drawing that release.
    """


class UnknownBudgetError(LedgerError):
    """The ledger holds no budget of this name."""


class LedgerUnavailableError(LedgerError):
    """The ledger can't be read or written now: it is locked, closed, or its disk is full or fails.

    The same call may succeed later. Where it has a request_id, it is not paid twice.
    """
