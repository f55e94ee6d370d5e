"""`lathe` and `python -m lathe`: the command line that comes with the package (docs/README.md), and its version."""

import os
import subprocess
import sys

_HELP = """usage: lathe COMMAND
  --version  the version
  devices    the devices of this machine
  bench      how long common calls take (python -m lathe.bench)"""


def _tool():
    """The native command line: next to the package in a wheel, in bin/ of a build."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "lathe"), os.path.join(_built_in(), "bin", "lathe")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _built_in():
    """The folder of the build whose module is loaded."""
    from lathe import _core

    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(_core.__file__))))


def _without_tool(arguments):
    """What there is where the native command line was not built."""
    command = arguments[0] if arguments else "help"
    if command == "devices":
        from lathe import _core

        print("\n".join(_core.available_devices()))
    elif command == "bench":
        import runpy

        sys.argv = ["lathe.bench", *arguments[1:]]
        runpy.run_module("lathe.bench", run_name="__main__")
    elif command.lstrip("-") in ("help", "h"):
        print(_HELP)
    else:
        print(f"lathe: there is no command {command}\n{_HELP}", file=sys.stderr)
        return 2
    return 0


def main(arguments):
    """Runs one command; gives the exit status."""
    if arguments and arguments[0] in ("version", "--version", "-V"):
        import lathe

        print(f"lathe {lathe.__version__}")
        return 0
    tool = _tool()
    return _without_tool(arguments) if tool is None else subprocess.call([tool, *(arguments or ["--help"])])


def run():
    """The console command `lathe`."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
