# SPDX-License-Identifier: Apache-2.0
"""Recorders of models of other frameworks. `repro-check` starts them; nothing else imports them."""
