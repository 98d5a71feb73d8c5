"""The one exception that a user sees as a message without a traceback."""


class ExportError(Exception):
    """What is wrong and what to do about it."""
