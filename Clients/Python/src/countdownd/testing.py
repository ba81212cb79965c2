"""Private daemons for tests; `countdownd.pytest_plugin` has the fixture."""

from ._daemon import Daemon, eventually

__all__ = ["Daemon", "eventually"]
