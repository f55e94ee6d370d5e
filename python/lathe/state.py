"""As older tinygrad programs import it."""

from lathe.nn.state import *  # noqa: F403
