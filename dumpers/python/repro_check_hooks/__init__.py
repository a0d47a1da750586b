# SPDX-License-Identifier: Apache-2.0
"""What `repro-check` loads into Python programs that it records. sitecustomize and repro_check.record() begin with
`attach`; `kit` is a program of its own as well."""
