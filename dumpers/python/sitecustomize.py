# SPDX-License-Identifier: Apache-2.0
"""Python imports this by itself before the program, since `repro-check exec` puts its folder on
PYTHONPATH. Another sitecustomize that this one hides is run afterwards."""


def _attach():
    from repro_check_hooks import attach

    attach.start()


def _run_hidden(here):
    import sys
    from importlib.machinery import PathFinder

    places = [place for place in sys.path if place != here]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _attach()
except Exception:  # whatever it is, it is not the program's
    pass
_run_hidden(__file__.rpartition("/")[0])
