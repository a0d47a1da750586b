# SPDX-License-Identifier: Apache-2.0
"""`python -m repro_check`: the command `repro-check`."""

from .tool import main

main()
