"""Whisper over many recordings at once: windows of all files share the encoder's calls and the decoder's slots."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace

import mlx.core as mx

from mlxbatch import blas, device, kernels
from mlxbatch.encoder_context import WINDOW_FRAMES
from mlxbatch.engines.base import Admit, EngineSpec, Jobs
from mlxbatch.engines.whisper import footprint, network
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.engines.whisper.alignment import Floats
from mlxbatch.engines.whisper.echo import is_echo
from mlxbatch.engines.whisper.encoding import EncodeAhead, Encoded
from mlxbatch.engines.whisper.features import log_mel
from mlxbatch.engines.whisper.heads import alignment_heads
from mlxbatch.engines.whisper.queue import WindowQueue
from mlxbatch.engines.whisper.rules import Rules
from mlxbatch.engines.whisper.slots import PromptCache, Slots, Sound, Trial, prefill_length
from mlxbatch.engines.whisper.windows import (
    FRAMES_PER_STAMP,
    SAMPLE_RATE,
    WINDOW_SAMPLES,
    WINDOW_STAMPS,
    Piece,
    Window,
    compression_ratio,
    is_silence,
    needs_retry,
    pieces,
    telling,
    window_from,
)
from mlxbatch.engines.whisper.word_times import Spoken, Untimed, WordTimer
from mlxbatch.errors import OutOfMemory, show
from mlxbatch.models.check import check_whisper
from mlxbatch.models.residency import Residency, device_residency
from mlxbatch.types import JobFailed, Output, Readings, Segment, Span, WindowStats
from mlxbatch.vad.ahead import Heard, SpeechAhead
from mlxbatch.vad.resident import resident_networks, speech_ahead

# The share of the slots that are to be live before a step is decoded, as long as more windows are on their way: a step
# costs a row among many next to nothing, and what the decoder leaves of the device the encoder has.
CROWDED = 0.875
# Windows a slot has to finish, after the device ran out of memory, before as many again are tried.
RECOVERY = 4


@dataclass
class Seated:
    """A window in a slot."""

    window: Window
    language: str
    no_speech_prob: float
    entered: float
    rung: int  # of the temperature ladder

    @property
    def waiting(self) -> Window:
        """The window as it goes back into the queue: it keeps its place on the ladder, not what it has decoded."""
        return replace(self.window, rung=self.rung, entered=self.entered)

    @property
    def attempts(self) -> int:
        return 1 + self.rung + self.window.full


class WhisperEngine:
    """Continuous batching: a finished row leaves at once and the next encoded window takes its slot."""

    sample_rate = SAMPLE_RATE

    def __init__(self, spec: EngineSpec, residency: Residency | None = None) -> None:
        """`residency`: that of the process, where another engine has set up the device; its limits hold then."""
        assert spec.model is not None
        files = check_whisper(spec.model)
        self._spec, self._dims = spec, files.dims
        self._dtype: mx.Dtype = getattr(mx, spec.dtype)
        self._heads = alignment_heads(spec.model, files.dims)
        self._memory = footprint.Memory(files.dims, spec, len(self._heads) if spec.words else 0)
        self._abilities = Abilities.read(spec.model)
        self._vocabulary, self._languages = self._abilities.vocabulary, self._abilities.languages
        self._config, self._weight_files = json.loads(files.config.read_text("utf-8")), list(files.weights)
        # What is set on the device is put back where loading fails, too.
        with ExitStack() as undo:
            settings = device.DeviceSettings(**spec.device)
            self._residency = residency or undo.enter_context(device_residency(settings))
            self._rules = Rules(self._vocabulary, files.dims.n_vocab)
            with self._models():
                pass  # loaded now, so that what is wrong with them is known before the run
            self._encoders = EncodeAhead(spec.encode_rows, spec.encode_streams)
            undo.callback(self._encoders.close)
            self._exit = undo.pop_all()
        self._ahead: SpeechAhead | None = None
        self._outputs: deque[Output | JobFailed | Untimed] = deque()
        self._spans: list[Span] = []
        self._work = device.Work()

    # ---- the seam

    def run(self, jobs: Jobs, admit: Admit) -> Iterator[Output | JobFailed]:
        threads = self._spec.blas_threads
        # Pools of BLAS threads that share cores slow each other down, and encoder calls run beside the decoder.
        with self._models(), blas.threads(threads) if threads else nullcontext():
            try:
                yield from self._run(jobs, admit)
            finally:
                self._encoders.withdraw()
                del self._slots  # which have hold of the decoder

    @contextmanager
    def _models(self) -> Iterator[None]:
        """All models of a run, resident for as long. Whatever has hold of one keeps its memory, so nothing may."""
        networks = resident_networks(self._residency, self._spec.vad)
        with self._resident_network() as self._network, networks as self._listeners:
            try:
                yield
            finally:
                del self._network, self._listeners

    def _resident_network(self) -> AbstractContextManager[network.Network]:
        """The network for as long as it is used; loaded where it is not there, or not any more."""
        spec, files, config, dtype = self._spec, self._weight_files, self._config, self._dtype
        assert spec.model is not None
        form = f"{spec.dtype}, {spec.bits} bits" if spec.bits else spec.dtype
        plain = not kernels.on_gpu()
        return self._residency.use(
            f"{show(spec.model)} ({form})",
            lambda: network.load(files, config, dtype, spec.bits, dequantized=plain),
            footprint.weight_bytes(config, files, spec.dtype, spec.bits, plain=plain),
        )

    def _run(self, jobs: Jobs, admit: Admit) -> Iterator[Output | JobFailed]:
        self._seat_none()
        self._outputs.clear()  # of a run that was given up
        self._limit, self._well = self._spec.batch_size, 0
        ahead, timer = speech_ahead(self._listeners, WINDOW_SAMPLES, SAMPLE_RATE), WordTimer(self._vocabulary.text)
        with ahead as self._ahead, timer as self._timer:
            look_ahead, streams = 2 * self._spec.batch_size, self._spec.cpu_streams
            self._queue = WindowQueue(jobs, look_ahead, self._features, self._open, self._skip, streams, self._ahead)
            yield from self._drain(admit)

    def _drain(self, admit: Admit) -> Iterator[Output | JobFailed]:
        """All windows of the queue, until no job comes any more."""
        while True:
            try:
                with device.device_errors():
                    self._queue.fill(wait=not self._busy)
                    self._encode(admit)
                    self._fill_seats(admit)
                    self._decode()
            except OutOfMemory as error:
                self._relieve(error)
            yield from self._ready(wait=not self._busy and not len(self._queue))
            if not self._busy and self._queue.exhausted:
                return

    def _ready(self, *, wait: bool) -> Iterator[Output | JobFailed]:
        """Outputs in the order in which they came up: up to the first whose words are not timed yet, or all."""
        while self._outputs:
            first = self._outputs[0]
            if isinstance(first, Untimed):
                if not (wait or first.done):
                    return
                first = first.result()
            self._outputs.popleft()
            yield first

    @property
    def _busy(self) -> int:
        """Windows that are being worked on."""
        return len(self._seated) + self._encoders.windows

    def _seat_none(self) -> None:
        self._slots = Slots(self._network.decoder, self._rules, self._spec.batch_size, self._heads)
        self._seated: dict[Trial, Seated] = {}
        self._taken: list[Window] = []  # encoded, not yet seated

    def need(self, seconds: float) -> int:
        return self._memory.need(seconds)

    def working(self, longest: float) -> int:
        return self._memory.working(longest)

    def weights(self) -> int:
        return self._residency.resident.bytes

    def memory_limit(self) -> int:
        return self._residency.budget

    def readings(self) -> Readings:
        heard = self._ahead.spans() if self._ahead else []
        spans, self._spans = (*self._spans, *self._encoders.spans(), *heard), []
        return replace(self.pulse(), spans=spans)

    def pulse(self) -> Readings:
        now, ahead = device.readings(self._work), self._ahead
        progress = now.progress + self._encoders.done + (ahead.steps if ahead else 0)
        return replace(now, progress=progress, resident=self._residency.resident)

    def reclaim(self) -> None:
        device.reclaim()

    def close(self) -> None:
        self._exit.close()

    # ---- a window comes in

    def _open(self, heard: Heard) -> Window | None:
        job, language = heard.job, heard.job.options.language
        refusal = self._abilities.refusal(job.options)
        if problem := heard.problem or (refusal and f"the model {refusal}"):
            self._outputs.append(JobFailed(job.id, problem))
            return None
        window = window_from(job, heard.speech, language=language)
        if window is None:
            nothing = WindowStats(0.0, job.seconds, tokens=0, latency=0.0)
            self._outputs.append(Output(job.id, 0, (), nothing, last=True, language=language))
        return window

    def _features(self, window: Window) -> mx.array:
        return log_mel(window.samples, self._dims.n_mels, self._dtype, self._frames(window))

    def _frames(self, window: Window) -> int:
        """How many of its log-mel frames the encoder gets whole."""
        return WINDOW_FRAMES if window.at_full_context else self._spec.context.frames(window.frames)

    def _skip(self, window: Window) -> Window | None:
        return self._emit(window, [], window.language, WINDOW_STAMPS, 0, 0.0, 0)

    def _encode(self, admit: Admit) -> None:
        """Have waiting windows encoded: those for which there is a slot, and a few more for those that come free."""
        # As few ahead as there are few rows: whoever allows one alone is short of memory.
        rows = min(admit(len(self._seated)), self._limit)
        ahead = max(0, min(footprint.encoded_ahead(self._spec), rows - 1))
        # What is encoded ahead counts for no live row, so that it keeps none from its place.
        live = max(len(self._seated), self._busy - ahead)
        allowed = min(admit(live), self._limit)
        self._evict(len(self._seated) - allowed)
        room = min(allowed - live, len(self._queue))
        if room <= 0:
            return
        taken = self._queue.take(room)
        self._encoders.put(self._listen, [one.window for one in taken], self._queue.features(taken))
        self._spans += self._queue.spans
        self._queue.spans.clear()

    def _listen(self, mel: mx.array) -> Sound:
        """What the decoder is to hear of these log-mels [n, frames, n_mels]."""
        rest = self._spec.context.stretches(mel.shape[1])
        features, counts = self._network.encoder(mel, rest)
        return Sound.of(self._network.decoder.cross(features), counts)

    def _fill_seats(self, admit: Admit) -> None:
        """Seat the windows that are encoded; wait for them where the slots are too empty to be worth a step."""
        free = min(admit(len(self._seated)), self._limit) - len(self._seated)
        crowded = len(self._seated) >= CROWDED * (len(self._seated) + free)
        if self._spec.stream:  # whoever follows one waits for its first words
            crowded = bool(self._seated)
        found: list[Encoded] = []
        while free > 0 and (some := self._encoders.take(free, wait=not crowded)):
            found.append(some)
            self._taken += some.windows
            free -= len(some.windows)
        if found:
            self._seat(found)
            self._taken = []

    def _evict(self, count: int) -> None:
        """Put the latest of the seated windows back into the queue: fewer rows are allowed than are live."""
        latest = sorted(self._seated, key=lambda trial: self._seated[trial].window.order, reverse=True)
        for trial in latest[: max(0, count)]:
            self._slots.leave(trial)
            self._queue.push(self._seated.pop(trial).waiting)

    def _relieve(self, error: OutOfMemory) -> None:
        """Out of memory: all begin again, half as many at once; the one that was alone fails.

        The slots are made anew: a step that was cut off has left them half written.
        """
        windows = [*(seated.waiting for seated in self._seated.values()), *self._taken, *self._encoders.withdraw()]
        # One that was about to be seated is in it twice.
        windows = list({window.order: window for window in windows}.values())
        self._seat_none()
        self._work.live = 0
        self._work.shortages += 1
        device.reclaim()
        if len(windows) == 1:
            cause = f"the window at {windows[0].start:.1f} s needs more memory than there is, even alone: {error}"
            self._outputs.append(JobFailed(windows[0].job.id, cause))
            return
        self._limit, self._well = max(1, min(len(windows), self._limit) // 2), 0
        for window in windows:
            self._queue.push(window)

    def _recover(self) -> None:
        """A window went well; after some of them in a row as many again may be tried."""
        self._well += 1
        if self._well >= RECOVERY * self._limit:
            self._limit, self._well = min(2 * self._limit, self._spec.batch_size), 0

    def _seat(self, encoded: list[Encoded]) -> None:
        """Detect the language where it is not known, prefill each window's prompt, and put the windows into slots."""
        windows = [window for some in encoded for window in some.windows]
        entered = [some.entered for some in encoded for _ in some.windows]
        sound = Sound.together([some.sound for some in encoded])
        if all((window.language or not self._languages) and self._is_bare(window) for window in windows):
            languages = [window.language or "en" for window in windows]
            prompts = [self._prompt(window, language) for window, language in zip(windows, languages, strict=True)]
            cache, hidden = self._prefill(prompts, sound)
            logits = self._network.decoder.logits(hidden[:, 0])
        else:
            logits = self._at_start(sound)
            languages = self._spoken(windows, logits)
            prompts = [self._prompt(window, language) for window, language in zip(windows, languages, strict=True)]
            cache, _ = self._prefill(prompts, sound)
        no_speech = mx.exp(logits[:, self._vocabulary.no_speech] - kernels.logsumexp(logits)).tolist()
        trials = []
        for window, language, since, silence, prompt in zip(
            windows, languages, entered, no_speech, prompts, strict=True
        ):
            seated = Seated(window, language, silence, window.entered or since, window.rung)
            trials.append(self._trial(seated, prompt))
            self._seated[trials[-1]] = seated
        self._slots.join_all(trials, sound, cache)

    def _is_bare(self, window: Window) -> bool:
        """Whether no text comes before the start of its transcript."""
        return not (window.job.options.prompt or window.job.options.hotwords)

    def _at_start(self, sound: Sound) -> mx.array:
        """Logits [n, n_vocab] after the start of transcript alone, which tell speech and language.

        Without the text before it, unlike openai/whisper's `no_speech_prob`: that would tell of itself. (A ringing
        tone is no speech with 0.83 to Whisper base, and with 0.59 after a prompt of twelve words.)
        """
        _, hidden = self._prefill([[self._vocabulary.sot]] * len(sound.lengths), sound)
        return self._network.decoder.logits(hidden[:, 0])

    def _prefill(self, prompts: list[list[int]], sound: Sound) -> tuple[PromptCache, mx.array]:
        """Keys and values of prompts of any lengths, and the hidden states [n, t, n_state].

        Short ones are padded behind, where no token of their own looks: a row gets what it gets alone.
        """
        cache, length = PromptCache(), prefill_length(prompts, self._dims.n_text_ctx)
        tokens = mx.array([prompt + [self._vocabulary.eot] * (length - len(prompt)) for prompt in prompts], mx.int32)
        places = mx.broadcast_to(mx.arange(length), tokens.shape)
        return cache, self._network.decoder(tokens, places, cache, sound.cross, sound.heard)

    def _spoken(self, windows: list[Window], logits: mx.array) -> list[str]:
        """Each window's language: as given, else the most probable of the language tokens after start-of-transcript."""
        if not self._languages:
            return ["en"] * len(windows)
        codes = list(self._languages)
        best = mx.argmax(logits[:, mx.array(list(self._languages.values()))], axis=-1).tolist()
        return [window.language or codes[index] for window, index in zip(windows, best, strict=True)]

    def _prompt(self, window: Window, language: str) -> list[int]:
        """What the window's decoding starts from: the run's prompt comes before each of a recording's windows."""
        options = window.job.options
        before = self._vocabulary.before(options.prompt, options.hotwords)
        start = self._vocabulary.prompt(language, options.task) if self._languages else [self._vocabulary.sot]
        return before + start

    def _trial(self, seated: Seated, prompt: list[int]) -> Trial:
        options = seated.window.job.options
        temperature = options.temperatures[seated.rung]
        before = prompt[: prompt.index(self._vocabulary.sot)]
        seed = seated.window.seed(temperature, before) if temperature else 0
        # As many tokens as openai/whisper's `sample_len`, and never past the model's context.
        most = min(self._dims.n_text_ctx // 2, self._dims.n_text_ctx - len(prompt))
        limit = min(options.max_tokens or most, most)
        return Trial(prompt, seated.window.end_stamp, limit, temperature, seed, options.words)

    # ---- a window goes out

    def _decode(self) -> None:
        rows, self._work.live = len(self._seated), self._busy
        if not rows:
            return
        began = time.monotonic()
        self._work.progress += 1
        for trial in self._slots.step():
            # Read while it is seated: where there is no memory for it, the window begins again.
            attention = self._slots.attention(trial) if trial.words else None
            self._finish(trial, self._seated.pop(trial), attention)
        self._timer.begin()
        self._work.live = self._busy
        self._note_decode(began, rows)

    def _note_decode(self, began: float, rows: int) -> None:
        """Steps in a row are one span: thousands of single steps would say no more."""
        last = self._spans[-1] if self._spans else None
        if last is not None and last.stage == "decode" and last.rows == rows:
            self._spans.pop()
            began = last.begin
        self._spans.append(Span("decode", began, time.monotonic(), rows))

    def _finish(self, trial: Trial, seated: Seated, attention: Floats | None) -> None:
        window = seated.window
        if math.isnan(trial.logprob):
            self._slots.leave(trial)
            self._outputs.append(JobFailed(window.job.id, f"the model gave NaN for the window at {window.start:.1f} s"))
            return
        options = window.job.options
        text = self._vocabulary.text(trial.tokens)
        ratio = compression_ratio(text)
        silence = is_silence(seated.no_speech_prob, trial.avg_logprob, options, lambda: is_echo(text, options))
        if not silence and needs_retry(ratio, trial.avg_logprob, options) and self._again(trial, seated):
            return
        self._slots.leave(trial)
        self._recover()
        begin = self._vocabulary.timestamp_begin
        found, advance = ([], WINDOW_STAMPS) if silence else pieces(trial.tokens, begin, window.end_stamp)
        cut = trial.cut and advance == WINDOW_STAMPS and not silence
        if cut and trial.tokens[-1] >= begin and found[-1].tokens:
            # Cut off where a segment ends: nothing is lost if the next window begins there.
            advance, cut = found[-1].end, False
        segments = [self._segment(piece, seated, trial, ratio) for piece in found]
        spoken = None
        if attention is not None and found:
            said = "en" if options.task == "translate" else seated.language
            tokens = [piece.tokens for piece in found]
            spoken = Spoken.of(segments, tokens, trial.tokens, trial.logprobs, attention, begin, window.start, said)
        latency = time.monotonic() - seated.entered
        language = window.language if silence else seated.language
        count, attempts = len(trial.tokens), seated.attempts
        following = self._emit(window, segments, language, advance, count, latency, attempts, cut, spoken)
        self._queue.push(following)

    def _again(self, trial: Trial, seated: Seated) -> bool:
        """Try a doubtful window again: first with the encoder's full context, then at the next temperature, if any."""
        window = seated.window
        if self._frames(window) < WINDOW_FRAMES:
            self._slots.leave(trial)
            self._queue.push(replace(window, full=True, entered=seated.entered))
            return True
        if seated.rung + 1 == len(window.job.options.temperatures):
            return False
        seated.rung += 1
        following = self._trial(seated, trial.prompt)
        self._seated[following] = seated
        self._slots.restart(trial, following)
        return True

    def _segment(self, piece: Piece, seated: Seated, trial: Trial, ratio: float) -> Segment:
        start, end = (round(time, 3) for time in seated.window.times(piece))
        return Segment(
            start=start,
            end=end,
            text=self._vocabulary.text(piece.tokens).strip(),
            channel=seated.window.job.channel,
            avg_logprob=trial.avg_logprob,
            no_speech_prob=seated.no_speech_prob,
            compression_ratio=ratio,
            temperature=trial.temperature,
        )

    def _emit(
        self,
        window: Window,
        segments: list[Segment],
        language: str | None,
        advance: int,
        tokens: int,
        latency: float,
        attempts: int,
        cut: bool = False,
        spoken: Spoken | None = None,
    ) -> Window | None:
        """Put out a finished window, what was `spoken` in it with its words; returns the one that follows it."""
        following = window.following(advance * FRAMES_PER_STAMP, language)
        stats = WindowStats(window.start, window.end - window.start, tokens, latency, attempts, cut)
        told = telling(segments)
        output = Output(window.job.id, window.index, told, stats, last=following is None, language=language)
        self._outputs.append(output if spoken is None else self._timer.put(output, spoken))
        return following
