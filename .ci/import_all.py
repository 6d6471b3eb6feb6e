"""Import every module of a package, to find dependencies that it does not declare.

Run it alone, in an environment that has only the declared ones.
"""

import importlib
import pkgutil
import sys


def main() -> None:
    """Import all modules of the package named by the first argument, except migration scripts."""
    package = importlib.import_module(sys.argv[1])
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".migrations." not in module.name:
            importlib.import_module(module.name)


if __name__ == "__main__":
    main()
