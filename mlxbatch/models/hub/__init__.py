"""Models of the Hugging Face hub, in the hub's own cache: `HF_HOME`, `HF_ENDPOINT` and `HF_TOKEN` hold.

The hub's library keeps the cache's layout and speaks to the server. Ours are the large files, because the library
begins them anew after an interrupt and never compares them with their hashes: partial files are continued, retried a
bounded number of times, checked against the published sha256, and land by rename.
"""

from mlxbatch.models.hub.fetch import fetch, is_here
from mlxbatch.models.hub.wanted import HUB_ID, Wanted, needed

__all__ = ["HUB_ID", "Wanted", "fetch", "is_here", "needed"]
