"""A prompt that comes back as the text of a window in which nothing was said. No MLX.

What was said just before is likely to the model, so that the mean log-probability does not give it away: on five
seconds of hiss Whisper base, asked to expect a bank's name, says a sentence about that bank with -0.8.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from mlxbatch.types import TranscribeOptions

# Of the text, in one run. What is left is what the model puts around it: "We are going to talk about the ...".
SHARE = 0.5
# Characters that two texts rarely share by chance: "you" has most of its letters in "about".
LEAST = 6


def is_echo(text: str, options: TranscribeOptions) -> bool:
    """Whether half of the text or more is one stretch of the prompt or of the hotwords; case does not count."""
    said = text.strip().casefold()
    sources = (options.prompt.casefold(), ", ".join(options.hotwords).casefold())
    return max(_longest(said, source) for source in sources) >= max(LEAST, SHARE * len(said))


def _longest(text: str, source: str) -> int:
    """The length of the longest stretch that both have, in characters: not all scripts part their words."""
    return SequenceMatcher(None, text, source, autojunk=False).find_longest_match().size
