"""What workers over HTTP carry: callers against workers, on SQLite and PostgreSQL, beside a bare tool.

    uv run python bench/http.py [--callers N] [--workers M] [--seconds S] [--kill-every S] [--folder DIR]

What is measured, and how, stands in `load.py`. Python looks for modules in a script's own folder first, so
every script here that imports the `http` of the standard library is given this file, which then makes way.
"""

import sys

if __name__ == "http":
    import sysconfig
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("http", [sysconfig.get_path("stdlib")])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["http"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["http"])
elif __name__ == "__main__":
    from load import main

    main(__doc__)
