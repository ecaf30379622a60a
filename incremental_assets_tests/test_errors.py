"""What an error quotes of a library's error is for people: no colours, no backtrace."""

from __future__ import annotations

from incremental_assets.errors import LedgerError

RUST = """Kernel error -> Generic error
      \x1b[31m↳\x1b[0m Json error: truncated
   0: <unknown>
   1: start_thread
             at ./nptl/pthread_create.c:442:8

"""


def test_a_backtrace_and_colours_are_left_out_and_what_is_behind_them_stays() -> None:
    error = LedgerError(f"The ledger cannot be read: {RUST}. Run again.")

    assert str(error) == (
        "The ledger cannot be read: Kernel error -> Generic error\n"
        "      ↳ Json error: truncated. Run again."
    )
