"""What a run came to, beside the runs before it: read from the ledger and the runs' logs, told as text, JSON or HTML.

Nothing in here writes below the output root; only the page and its pictures load jinja2 and matplotlib.
"""
