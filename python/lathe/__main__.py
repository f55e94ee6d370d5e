"""`python -m lathe`: the version, the devices of this machine, and the benchmark of the package."""

import sys

_HELP = """usage: python -m lathe COMMAND
  version    the version (also --version)
  devices    the devices of this machine
  bench      how long common calls take (python -m lathe.bench)"""


def main(arguments):
    """Runs one command; gives the exit status."""
    command = arguments[0].lstrip("-") if arguments else "help"
    if command in ("version", "V"):
        import lathe

        print(f"lathe {lathe.__version__}")
    elif command == "devices":
        from lathe import _core

        print("\n".join(_core.available_devices()))
    elif command == "bench":
        import runpy

        sys.argv = ["lathe.bench", *arguments[1:]]
        runpy.run_module("lathe.bench", run_name="__main__")
    elif command in ("help", "h"):
        print(_HELP)
    else:
        print(f"lathe: there is no command {arguments[0]}\n{_HELP}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
